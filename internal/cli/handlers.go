package cli

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/later-queue/later"
	"github.com/later-queue/later/command"
	"github.com/later-queue/later/endpoint"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/worker"
)

// httpKeyVariable holds keys for --http; commands do not get to see it.
const httpKeyVariable = "LATER_HTTP_KEY"

// handlerFlags say what runs the jobs.
type handlerFlags struct {
	exec, http     []string
	httpKeyFile    string
	allowPrivate   bool
	allowRedirects bool
	httpRetry      []int
	perHost        int
	backoff        time.Duration
	killAfter      time.Duration
}

func (f *handlerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.exec, "exec", nil, "run jobs of a kind with a command: `KIND=COMMAND`; repeatable")
	flags.StringArrayVar(&f.http, "http", nil, "run jobs of a kind by a POST: `KIND=URL`; repeatable")
	flags.StringVar(&f.httpKeyFile, "http-key-file", "", "`file` with the keys that sign the requests, one a line (whsec_…); else "+httpKeyVariable)
	flags.BoolVar(&f.allowPrivate, "allow-private", false, "let --http reach loopback, private and link-local addresses")
	flags.BoolVar(&f.allowRedirects, "allow-redirects", false, "let --http follow redirects (307, 308) on the same host")
	flags.IntSliceVar(&f.httpRetry, "http-retry", nil, "`answers` of --http from 400 to 499 that are retried besides 408, 425 and 429, such as 401,403,404")
	addNumber(flags, &f.perHost, "http-per-host", 0, 1, worker.MaxConcurrency, "at most this `number` of requests to one host at once (default half of --concurrency, but at least "+strconv.Itoa(endpoint.DefaultMaxPerHost)+")")
	addDuration(flags, &f.backoff, "backoff", 0, "time before the first retry; each further one comes after 4 times as long, up to 6h, all ±20% (default 10s)")
	addDuration(flags, &f.killAfter, "kill-after", command.DefaultKillAfter, "time between SIGTERM and SIGKILL for a command that is to stop")
}

// handlers makes the handlers; its errors name the flags.
func (f *handlerFlags) handlers(a *App, slots int, log *slog.Logger) (*later.Handlers, error) {
	if len(f.exec)+len(f.http) == 0 {
		return nil, usageError("no handlers: give --exec KIND=COMMAND or --http KIND=URL").next("`later work --help` has examples")
	}
	config := later.HandlerConfig{Backoff: later.Backoff{Base: f.backoff}}
	if err := config.Backoff.Check(); err != nil {
		return nil, usageError("--%w", err)
	}
	if f.killAfter < 0 {
		return nil, usageError("--kill-after is %v; it must not be negative", f.killAfter)
	}
	environ, err := a.commandEnviron()
	if err != nil {
		return nil, err
	}
	handlers := later.NewHandlers()
	for _, text := range f.exec {
		kind, line, err := splitHandler("--exec", "COMMAND", text, handlers)
		if err != nil {
			return nil, err
		}
		words, err := command.Parse(line)
		if err != nil {
			return nil, usageError("--exec %s: %w", kind, err)
		}
		run, err := command.New(command.Config{Command: words, Env: environ, KillAfter: f.killAfter})
		if err != nil {
			return nil, usageError("--exec %s: %w", kind, err)
		}
		later.HandleRaw(handlers, kind, config, run)
	}
	if len(f.http) == 0 {
		for _, flag := range []struct {
			name string
			set  bool
		}{
			{"--http-key-file", f.httpKeyFile != ""}, {"--allow-private", f.allowPrivate}, {"--allow-redirects", f.allowRedirects},
			{"--http-retry", len(f.httpRetry) > 0}, {"--http-per-host", f.perHost > 0},
		} {
			if flag.set {
				return nil, usageError("%s is of use with --http only", flag.name)
			}
		}
		return handlers, nil
	}
	for _, status := range f.httpRetry {
		if status < 400 || status > 499 {
			return nil, usageError("--http-retry has %d; it takes statuses from 400 to 499", status)
		}
	}
	keys, err := f.keys(a)
	if err != nil {
		return nil, err
	}
	for _, text := range f.http {
		kind, url, err := splitHandler("--http", "URL", text, handlers)
		if err != nil {
			return nil, err
		}
		run, err := endpoint.New(endpoint.Config{
			URL: url, Keys: keys, AllowPrivate: f.allowPrivate, AllowRedirects: f.allowRedirects, Retry: f.httpRetry, MaxPerHost: f.requestsPerHost(slots),
		})
		if err != nil {
			return nil, usageError("--http %s: %s", kind, fieldsAsFlags.Replace(err.Error()))
		}
		later.HandleRaw(handlers, kind, config, run)
	}
	if len(keys) == 0 {
		log.Warn("requests are not signed, so receivers cannot tell them from others: set " + httpKeyVariable + " or --http-key-file")
	}
	return handlers, nil
}

// requestsPerHost leaves half of the slots to other hosts, where there are enough.
func (f *handlerFlags) requestsPerHost(slots int) int {
	if f.perHost > 0 {
		return f.perHost
	}
	return max(slots/2, endpoint.DefaultMaxPerHost)
}

// fieldsAsFlags writes the fields of [endpoint.Config] as a person sets them.
var fieldsAsFlags = strings.NewReplacer("AllowPrivate", "--allow-private", "AllowRedirects", "--allow-redirects")

func splitHandler(flag, what, text string, handlers *later.Handlers) (kind, value string, err error) {
	kind, value, ok := strings.Cut(text, "=")
	if !ok {
		return "", "", usageError("%s %q has no =; it is written as KIND=%s", flag, later.CleanText(text, 60), what)
	}
	if kind == "" {
		return "", "", usageError("%s %q: the kind before = is empty", flag, later.CleanText(text, 60))
	}
	if err := later.CheckName(flag, kind); err != nil {
		return "", "", err
	}
	if handlers.Lookup(kind) != nil {
		return "", "", usageError("%s: the kind %s has a handler already", flag, kind)
	}
	return kind, value, nil
}

// keys reads the signing keys. They never are arguments, which every user of
// the machine can see.
func (f *handlerFlags) keys(a *App) ([]string, error) {
	text := a.Env(httpKeyVariable)
	if f.httpKeyFile != "" {
		data, err := os.ReadFile(f.httpKeyFile)
		if err != nil {
			return nil, usageError("--http-key-file: %w", err)
		}
		text = string(data)
		if strings.TrimSpace(text) == "" {
			return nil, usageError("--http-key-file: %s is empty", f.httpKeyFile)
		}
	}
	return strings.Fields(text), nil
}

// commandEnviron is the environment without the secrets that are not the
// commands' business, and with the worker's own database, so that what a command
// enqueues gets there: whatever named it, and whatever folder the command is in.
func (a *App) commandEnviron() ([]string, error) {
	url, err := open.Absolute(a.flags.db)
	if err != nil {
		return nil, a.fromVariable(err)
	}
	environ := []string{}
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); name != httpKeyVariable {
			environ = append(environ, entry)
		}
	}
	// Of two variables with one name, exec takes the later.
	return append(environ, dbVariable+"="+url, schemaVariable+"="+a.flags.schema), nil
}
