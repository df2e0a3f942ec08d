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
