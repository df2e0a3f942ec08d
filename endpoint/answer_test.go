package endpoint_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/endpoint"
)

// verdict names what a handler's error asks for, and the delay.
func verdict(err error) (string, time.Duration) {
	if err == nil {
		return "done", 0
	}
	if d, ok := later.IsSnooze(err); ok {
		return "snooze", d
	}
	if later.IsPermanent(err) {
		return "dead", 0
	}
	if d, ok := later.IsRetryAfter(err); ok {
		return "retry after", d
	}
	return "retry", 0
}

// Case 211: the published table of answers.
func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		status  int
		header  string // "Name: value"; a value "in 1h" stands for the date that is then
		verdict string
		delay   time.Duration // up to a fifth is added
	}{
		{200, "", "done", 0},
		{201, "", "done", 0},
		{202, "Retry-After: 5", "done", 0},
		{204, "", "done", 0},
		{206, "", "done", 0},
		{299, "", "done", 0},
		{300, "", "dead", 0},
		{301, "Location: /else", "dead", 0},
		{302, "Location: /else", "dead", 0},
		{303, "Location: /else", "dead", 0},
		{304, "", "dead", 0},
		{307, "Location: /else", "dead", 0},
		{308, "Location: /else", "dead", 0},
		{400, "", "dead", 0},
		{401, "", "dead", 0},
		{403, "", "dead", 0},
		{404, "", "dead", 0},
		{404, "Retry-After: 5", "dead", 0},
		{404, "Later-Snooze: 5", "dead", 0},
		{408, "", "retry", 0},
		{409, "", "dead", 0},
		{410, "", "dead", 0},
		{413, "", "dead", 0},
		{418, "", "retry", 0}, // in Config.Retry
		{422, "", "dead", 0},
		{425, "", "retry", 0},
		{429, "", "retry", 0},
		{429, "Retry-After: 120", "retry after", 2 * time.Minute},
		{429, "Retry-After: 0", "retry after", endpoint.MinDelay},
		{429, "Retry-After: 1000000000", "retry after", endpoint.MaxDelay},
		{429, "Retry-After: 99999999999999999999999", "retry after", endpoint.MaxDelay},
		{429, "Retry-After: -1", "retry", 0},
		{429, "Retry-After: soon", "retry", 0},
		{429, "Retry-After: 1.5", "retry", 0},
		{429, "Retry-After: 5, 6", "retry", 0},
		{429, "Retry-After: in 1h", "retry after", time.Hour},
		{429, "Retry-After: in -1h", "retry", 0},
		{429, "Retry-After: in 1000h", "retry after", endpoint.MaxDelay},
		{429, "Later-Snooze: 30", "snooze", 30 * time.Second},
		{500, "", "retry", 0},
		{500, "Later-Snooze: soon", "retry", 0},
		{501, "", "retry", 0},
		{502, "", "retry", 0},
		{503, "Retry-After: 7", "retry after", 7 * time.Second},
		{503, "Later-Snooze: 3600", "snooze", time.Hour},
		{504, "", "retry", 0},
		{599, "", "retry", 0},
		{999, "", "retry", 0},
	} {
		t.Run(strings.TrimSpace(strconv.Itoa(c.status)+" "+c.header), func(t *testing.T) {
			requests := 0
			at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests++
				name, value, _ := strings.Cut(c.header, ": ")
				if in, err := time.ParseDuration(strings.TrimPrefix(value, "in ")); err == nil && strings.HasPrefix(value, "in ") {
					value = time.Now().Add(in).UTC().Format(http.TimeFormat)
				}
				if name != "" {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
			})
			err := send(t, endpoint.Config{URL: at, Retry: []int{418}}, newJob(`{}`))
			got, delay := verdict(err)
			if got != c.verdict {
				t.Errorf("got %s, want %s (%v)", got, c.verdict, err)
			}
			slack := 2 * time.Second // a date has whole seconds
			if delay < c.delay-slack || delay > c.delay+c.delay/5+slack {
				t.Errorf("got the delay %v, want %v and up to a fifth", delay, c.delay)
			}
			if requests != 1 {
				t.Errorf("%d requests were made, want 1", requests)
			}
			if err != nil && got != "snooze" && !strings.Contains(err.Error(), strconv.Itoa(c.status)) {
				t.Errorf("%q does not name the status", err)
			}
		})
	}
	t.Run("jobs that are put off together do not come back together", func(t *testing.T) {
		at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(503)
		})
		delays := map[time.Duration]bool{}
		for range 10 {
			_, d := verdict(send(t, endpoint.Config{URL: at}, newJob(`{}`)))
			delays[d] = true
		}
		if len(delays) < 5 {
			t.Errorf("got %v", delays)
		}
	})
}

// Case 211: the network's answers.
func TestNoAnswer(t *testing.T) {
	t.Run("a refused connection is retried", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := "http://" + listener.Addr().String()
		_ = listener.Close()
		err = send(t, endpoint.Config{URL: at}, newJob(`{}`))
		if got, _ := verdict(err); got != "retry" {
			t.Errorf("got %s (%v), want retry", got, err)
		}
	})
	t.Run("a body that is cut off is retried, whatever the status", func(t *testing.T) {
		for _, status := range []int{200, 500} {
			at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				w.WriteHeader(status)
				_, _ = w.Write([]byte("half"))
			})
			err := send(t, endpoint.Config{URL: at}, newJob(`{}`))
			if got, _ := verdict(err); got != "retry" || !strings.Contains(err.Error(), "broke off") {
				t.Errorf("%d: got %s (%v), want retry", status, got, err)
			}
		}
	})
	t.Run("a connection that is closed without an answer is retried", func(t *testing.T) {
		at := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		err := send(t, endpoint.Config{URL: at}, newJob(`{}`))
		if got, _ := verdict(err); got != "retry" {
			t.Errorf("got %s (%v), want retry", got, err)
		}
	})
	t.Run("a certificate that does not verify is retried", func(t *testing.T) {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = nil
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		server.StartTLS()
		t.Cleanup(server.Close)
		err := send(t, endpoint.Config{URL: server.URL}, newJob(`{}`))
		var unknown *tls.CertificateVerificationError
		if got, _ := verdict(err); got != "retry" || !errors.As(err, &unknown) {
			t.Errorf("got %s (%v), want retry", got, err)
		}
	})
	t.Run("headers without end are retried", func(t *testing.T) {
		at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		})
		err := send(t, endpoint.Config{URL: at}, newJob(`{}`))
		if got, _ := verdict(err); got != "retry" {
			t.Errorf("got %s (%v), want retry", got, err)
		}
	})
}

// Case 212: targets that accept and never come to an end.
func TestBounds(t *testing.T) {
	// hang is a server that holds each request until the test ends.
	hang := func(t *testing.T) (at string, arrived <-chan struct{}) {
		began, end := make(chan struct{}, 100), make(chan struct{})
		at = serveUntilEnd(t, func(http.ResponseWriter, *http.Request) { began <- struct{}{}; <-end })
		t.Cleanup(func() { close(end) }) // before the server is closed
		return at, began
	}
	t.Run("a target that never answers ends with the context, for its cause", func(t *testing.T) {
		at, arrived := hang(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		go func() { <-arrived; cancel(later.ErrLeaseLost) }()
		err := newRun(t, endpoint.Config{URL: at})(ctx, newJob(`{}`))
		if !errors.Is(err, later.ErrLeaseLost) {
			t.Errorf("got %v, want %v", err, later.ErrLeaseLost)
		}
	})
	t.Run("the job's timeout is a deadline even when the context has none", func(t *testing.T) {
		at, _ := hang(t)
		job := newJob(`{}`)
		job.Timeout = 50 * time.Millisecond
		err := newRun(t, endpoint.Config{URL: at})(context.Background(), job)
		if !errors.Is(err, later.ErrTimeout) {
			t.Errorf("got %v, want %v", err, later.ErrTimeout)
		}
	})
	t.Run("a target that drips ends with the deadline", func(t *testing.T) {
		at := serveUntilEnd(t, func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					_, _ = w.Write([]byte("x"))
					_ = http.NewResponseController(w).Flush()
				case <-r.Context().Done():
					return
				}
			}
		})
		job := newJob(`{}`)
		job.Timeout = 100 * time.Millisecond
		err := send(t, endpoint.Config{URL: at}, job)
		if !errors.Is(err, later.ErrTimeout) {
			t.Errorf("got %v, want %v", err, later.ErrTimeout)
		}
	})
	t.Run("of a body of a gigabyte only the beginning is read, and the status counts", func(t *testing.T) {
		var written atomic.Int64
		at := serveUntilEnd(t, func(w http.ResponseWriter, r *http.Request) {
			status, _ := strconv.Atoi(r.URL.Query().Get("status"))
			w.WriteHeader(status)
			chunk := []byte(strings.Repeat("x", 1<<20))
			for range 1 << 10 {
				n, err := w.Write(chunk)
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for status, want := range map[int]string{200: "done", 500: "retry", 400: "dead"} {
			err := send(t, endpoint.Config{URL: fmt.Sprintf("%s?status=%d", at, status)}, newJob(`{}`))
			if got, _ := verdict(err); got != want {
				t.Errorf("%d: got %s (%v), want %s", status, got, err, want)
			}
			if err != nil && len(err.Error()) > endpoint.MaxErrorBody+100 {
				t.Errorf("%d: the error has %d bytes", status, len(err.Error()))
			}
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%d bytes were allocated", used)
		}
		if n := written.Load(); n > 256<<20 {
			t.Errorf("%d bytes were taken from the server", n)
		}
	})
	t.Run("a slow host does not hold more than MaxPerHost slots", func(t *testing.T) {
		at, arrived := hang(t)
		config := endpoint.Config{URL: at, MaxPerHost: 2}
		first, second := newRun(t, config), newRun(t, config) // two kinds, one host
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- first(ctx, newJob(`{}`)) }()
		go func() { ended <- second(ctx, newJob(`{}`)) }()
		<-arrived
		<-arrived
		for range 3 {
			err := first(ctx, newJob(`{}`))
			if got, d := verdict(err); got != "snooze" || d < time.Second || d > 5*time.Minute {
				t.Errorf("got %s %v (%v), want a snooze", got, d, err)
			}
		}
		other := serve(t, func(http.ResponseWriter, *http.Request) {})
		if err := send(t, endpoint.Config{URL: other, MaxPerHost: 2}, newJob(`{}`)); err != nil {
			t.Errorf("another host: got %v, want done", err)
		}
		cancel()
		<-ended
		<-ended
		select {
		case <-arrived:
			t.Error("a third request was made")
		default:
		}
	})
}

// serveUntilEnd is serve for a handler that may still write when the test ends.
func serveUntilEnd(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// Case 200: what is kept with a job has no secrets of the configuration.
func TestSecrets(t *testing.T) {
	key := endpoint.NewKey()
	config := func(at string) endpoint.Config {
		return endpoint.Config{
			URL:    strings.Replace(at, "http://", "http://user:passw0rd@", 1) + "/path-s3cret?token=qu%20ery&n=1",
			Keys:   []string{key},
			Header: http.Header{"Authorization": {"Bearer t0ken-value"}, "X-Api-Key": {"api-key-value"}},
		}
	}
	check := func(t *testing.T, err error) {
		t.Helper()
		if err == nil {
			t.Fatal("got no error")
		}
		for _, secret := range []string{"passw0rd", "path-s3cret", "qu%20ery", "qu ery", "t0ken-value", "api-key-value", key, key[6:], "dXNlcjpwYXNzdzByZA"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q contains %s", err, secret)
			}
		}
		if !strings.HasPrefix(err.Error(), "POST 127.0.0.1:") {
			t.Errorf("%q does not begin with the method and the host", err)
		}
	}
	t.Run("nor has an answer that echoes the request", func(t *testing.T) {
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			_, _ = fmt.Fprintf(w, "you sent %s %s %v %s and %s", r.URL.RawQuery, r.URL.Query(), r.Header, key, "Basic dXNlcjpwYXNzdzByZA==")
		})
		err := send(t, config(at), newJob(`{}`))
		if !strings.Contains(err.Error(), "you sent") {
			t.Errorf("%q does not have the body", err)
		}
		for _, secret := range []string{"passw0rd", "t0ken-value", "api-key-value", "qu ery", "qu%20ery", key, "dXNlcjpwYXNzdzByZA"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q contains %s", err, secret)
			}
		}
	})
	t.Run("nor has a failed connection", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := "http://" + listener.Addr().String()
		_ = listener.Close()
		check(t, send(t, config(at), newJob(`{}`)))
	})
	t.Run("nor has a redirect", func(t *testing.T) {
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://else.example/path-s3cret?token=qu%20ery", http.StatusFound)
		})
		err := send(t, config(at), newJob(`{}`))
		check(t, err)
		if !strings.Contains(err.Error(), "302 Found: a redirect to else.example is not followed") {
			t.Errorf("got %q", err)
		}
	})
	t.Run("an error is valid text whatever the body is", func(t *testing.T) {
		// Case 2: NUL and invalid bytes in an error's text.
		at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = w.Write([]byte("boom\x00 caf\xe9\n"))
		})
		err := send(t, endpoint.Config{URL: at}, newJob(`{}`))
		if !strings.HasSuffix(err.Error(), ": 500 Internal Server Error: boom␀ caf\uFFFD") {
			t.Errorf("got %q", err)
		}
	})
}

func TestRedirect(t *testing.T) {
	t.Run("with AllowRedirects, 307 and 308 on the same host carry the request along", func(t *testing.T) {
		for _, status := range []int{307, 308} {
			var got received
			keep := record(t, &got)
			at := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					http.Redirect(w, r, "/new", status)
					return
				}
				keep(w, r)
			})
			key := endpoint.NewKey()
			config := endpoint.Config{URL: at, Keys: []string{key}, AllowRedirects: true}
			if err := send(t, config, newJob(`{"a":1}`)); err != nil {
				t.Fatal(err)
			}
			if got.Method != http.MethodPost || string(got.body) != `{"a":1}` || got.URL.Path != "/new" {
				t.Errorf("got %s %s %s", got.Method, got.URL, got.body)
			}
			if err := endpoint.Verify(got.Request, got.body, []string{key}, 0); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("with AllowRedirects, nothing else is followed", func(t *testing.T) {
		var elsewhere atomic.Int64
		other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
		for _, c := range []struct {
			status int
			to     string
		}{
			{301, "/new"}, {302, "/new"}, {303, "/new"}, {307, other}, {308, other}, {307, "/"}, {307, "ftp://127.0.0.1/"},
		} {
			at := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/new" {
					elsewhere.Add(1)
				}
				http.Redirect(w, r, c.to, c.status)
			})
			err := send(t, endpoint.Config{URL: at, AllowRedirects: true}, newJob(`{}`))
			if got, _ := verdict(err); got != "dead" {
				t.Errorf("%d %s: got %s (%v), want dead", c.status, c.to, got, err)
			}
		}
		if n := elsewhere.Load(); n != 0 {
			t.Errorf("%d requests went elsewhere", n)
		}
	})
}
