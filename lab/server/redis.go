package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// redisStart is how long a Redis server may take until it answers. Chosen: an
	// empty one takes a few milliseconds.
	redisStart = 20 * time.Second
	// redisStop is how long it may take to stop before it is killed. Chosen.
	redisStop = 20 * time.Second
	// redisPoll is how often it is asked whether it answers, or has rewritten its log.
	redisPoll = 10 * time.Millisecond
	// redisAnswer is how long it may take to answer. Chosen: to drop a million tasks took
	// longer than the client's 3 s on a busy machine.
	redisAnswer = time.Minute
	// redisTries is how many ports are tried: between the choice of a free port and
	// the server's start somebody else may take it.
	redisTries = 5
)

// Redis is a Redis server that keeps what it is told in an append-only file.
type Redis struct {
	dir      string
	port     int
	pid      int
	ended    chan struct{} // closed when the process has ended
	client   *redis.Client
	settings map[string]string
}

// startRedis returns what starts a server that writes its log to the disk as
// appendfsync says: "always", before it answers, like a database; or "everysec", its
// default, with which a crash of the machine loses up to a second's jobs.
func startRedis(appendfsync string) func(context.Context) (Server, error) {
	return func(ctx context.Context) (Server, error) {
		program, err := exec.LookPath("redis-server")
		if err != nil {
			return nil, fmt.Errorf("no Redis server found: install the Debian package redis-server (script/install-race does): %w", err)
		}
		for try := 1; ; try++ {
			r, err := runRedis(ctx, program, appendfsync)
			if err == nil || try == redisTries || ctx.Err() != nil {
				return r, err
			}
		}
	}
}

func runRedis(ctx context.Context, program, appendfsync string) (_ Server, err error) {
	r := &Redis{settings: map[string]string{
		"appendonly":  "yes",
		"appendfsync": appendfsync,
		"save":        "", // no snapshots besides the log
		// So that no rewriting of the log falls into one contender's round and not
		// into the others'. Fresh has it rewritten instead.
		"auto-aof-rewrite-percentage": "0",
	}}
	if r.port, err = freePort(); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp("", "later-lab-redis-"); err != nil {
		return nil, err
	}
	args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(r.port), "--dir", r.dir, "--daemonize", "no"}
	for name, value := range r.settings {
		args = append(args, "--"+name, value)
	}
	if err := r.run(program, args); err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.dir))
	}
	r.client = redis.NewClient(&redis.Options{Addr: r.address(), MaxRetries: -1, ReadTimeout: redisAnswer})
	if err := r.answers(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// run starts the process. It dies with us, where the system can do that.
func (r *Redis) run(program string, args []string) error {
	log, err := os.Create(r.logFile())
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = r.dir, log, log, diesWithUs()
	r.ended = make(chan struct{})
	started := make(chan error)
	go func() {
		// The death signal comes when the thread that started the child ends
		// (prctl(2), PR_SET_PDEATHSIG), so it has to stay as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(r.ended)
		defer log.Close()
		err := cmd.Start()
		if err == nil {
			r.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	return <-started
}

// answers waits until the server answers, and learns its version. Whoever answers must
// be the process that was started: another might listen on the port.
func (r *Redis) answers(ctx context.Context) error {
	deadline := time.After(redisStart)
	for {
		info, err := r.info(ctx, "server")
		switch {
		case err != nil:
		case info["process_id"] != strconv.Itoa(r.pid):
			return fmt.Errorf("another server has taken the port %d", r.port)
		default:
			r.settings["redis_version"] = info["redis_version"]
			return nil
		}
		select {
		case <-r.ended:
			text, _ := os.ReadFile(r.logFile())
			return fmt.Errorf("redis-server has ended:\n%s", text)
		case <-deadline:
			return fmt.Errorf("redis-server does not answer: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(redisPoll):
		}
	}
}

// Settings implements Server.
func (r *Redis) Settings() map[string]string { return r.settings }

// Fresh implements Server. The server is emptied and its log is written anew, so that
// every round begins alike. There is one database, whatever its name.
func (r *Redis) Fresh(ctx context.Context, _ string) (string, error) {
	if err := r.client.FlushAll(ctx).Err(); err != nil {
		return "", fmt.Errorf("flushall: %w", err)
	}
	if err := r.client.BgRewriteAOF(ctx).Err(); err != nil {
		return "", fmt.Errorf("bgrewriteaof: %w", err)
	}
	for {
		info, err := r.info(ctx, "persistence")
		if err != nil {
			return "", err
		}
		if info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0" {
			return "redis://" + r.address() + "/0", nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(redisPoll):
		}
	}
}

// Drop implements Server.
func (r *Redis) Drop(ctx context.Context, _ string) error {
	return r.client.FlushAll(ctx).Err()
}

// Tidy implements Server: there is nothing to tidy.
func (r *Redis) Tidy(context.Context, string) error { return nil }

// Read implements Server. What it says of WAL is the length of the append-only file.
func (r *Redis) Read(ctx context.Context, _ string) (u Usage, err error) {
	info, err := r.info(ctx, "persistence")
	if err != nil {
		return u, err
	}
	if u.WAL, err = strconv.ParseInt(info["aof_current_size"], 10, 64); err != nil {
		return u, fmt.Errorf("aof_current_size: %w", err)
	}
	u.CPU, err = treeCPU(r.pid)
	return u, err
}

// Close implements Server.
func (r *Redis) Close() error {
	err := r.client.Close()
	if killErr := syscall.Kill(r.pid, syscall.SIGTERM); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
		err = errors.Join(err, killErr)
	}
	select {
	case <-r.ended:
	case <-time.After(redisStop):
		err = errors.Join(err, fmt.Errorf("redis-server had to be killed after %v", redisStop), syscall.Kill(r.pid, syscall.SIGKILL))
		<-r.ended
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

func (r *Redis) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

func (r *Redis) logFile() string { return filepath.Join(r.dir, "redis.log") }

// info reads one section of what INFO says.
func (r *Redis) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := r.client.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("info %s: %w", section, err)
	}
	return parseInfo(text), nil
}

// parseInfo reads lines of a name, a colon and a value; others are headings.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// freePort returns a port of 127.0.0.1 on which nobody listens.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("%v is no TCP address", l.Addr())
	}
	return address.Port, nil
}
