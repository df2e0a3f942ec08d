package endpoint_test

import (
	"net/http"
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
