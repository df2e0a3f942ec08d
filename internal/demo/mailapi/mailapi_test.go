package mailapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

const seed = 1

// keyFor returns a key whose first call is treated so, and whose second is
// answered well.
func keyFor(t *testing.T, f fault) string {
	t.Helper()
	for i := range 10_000 {
		key := fmt.Sprintf("key-%d", i)
		if moodFor(seed, key, 1).fault == f && moodFor(seed, key, 2).fault == faultNone {
			return key
		}
	}
	t.Fatalf("got no key with the fault %d", f)
	return ""
}

// serve starts a service and returns it with a client.
func serve(t *testing.T, config Config) (*Server, *Client) {
	t.Helper()
	config.Outbox, config.Seed = filepath.Join(t.TempDir(), "mails.jsonl"), seed
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return s, NewClient(s.URL(), "caller")
}

func wantOutbox(t *testing.T, s *Server, want int) []Mail {
	t.Helper()
	mails, err := ReadOutbox(s.config.Outbox)
	if err != nil {
		t.Fatal(err)
	}
	if len(mails) != want {
		t.Fatalf("got %d mails in the outbox, want %d", len(mails), want)
	}
	return mails
}

func TestSend(t *testing.T) {
	mail := Mail{To: "ada@example.com", Subject: "Hello", Order: 7}

	t.Run("writes the mail", func(t *testing.T) {
		var heard []string
		s, client := serve(t, Config{Written: func(caller string, m Mail, again bool) {
			heard = append(heard, fmt.Sprint(caller, m.Order, again))
		}})
		id, err := client.Send(t.Context(), keyFor(t, faultNone), mail)
		if err != nil {
			t.Fatal(err)
		}
		got := wantOutbox(t, s, 1)[0]
		if want := (Mail{ID: id, Key: keyFor(t, faultNone), To: mail.To, Subject: mail.Subject, Order: 7}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got, want := fmt.Sprint(heard), "[caller7 false]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	for _, c := range []struct {
		name   string
		fault  fault
		status int // 0: no answer
		mails  int
		stats  Stats // after the second call
	}{
		{"may fail before the mail is written", faultError, 500, 0, Stats{Calls: 2, Written: 1, Errors: 1}},
		{"may be told to wait", faultThrottle, 429, 0, Stats{Calls: 2, Written: 1, Throttled: 1}},
		{"may fail after the mail is written", faultLostAnswer, 500, 1, Stats{Calls: 2, Written: 1, Absorbed: 1, LostAnswers: 1}},
		{"may be answered too late", faultLateAnswer, 0, 1, Stats{Calls: 2, Written: 1, Absorbed: 1, LateAnswers: 1}},
	} {
		t.Run(c.name+", and the same key never writes a second one", func(t *testing.T) {
			s, client := serve(t, Config{})
			key := keyFor(t, c.fault)
			_, err := client.Send(t.Context(), key, mail)
			var refusal *Refusal
			switch {
			case c.status == 0 && (err == nil || errors.As(err, &refusal)):
				t.Fatalf("got %v, want no answer", err)
			case c.status != 0 && (!errors.As(err, &refusal) || refusal.Status != c.status):
				t.Fatalf("got %v, want the status %d", err, c.status)
			case c.status == 429 && refusal.RetryAfter != time.Second:
				t.Errorf("got %v to wait, want 1s", refusal.RetryAfter)
			}
			wantOutbox(t, s, c.mails)
			if _, err := client.Send(t.Context(), key, mail); err != nil {
				t.Fatal(err)
			}
			wantOutbox(t, s, 1)
			if got := s.Stats(); got != c.stats {
				t.Errorf("got %+v, want %+v", got, c.stats)
			}
		})
	}

	t.Run("is refused for good without a key", func(t *testing.T) {
		s, client := serve(t, Config{})
		_, err := client.Send(t.Context(), "", mail)
		var refusal *Refusal
		if !errors.As(err, &refusal) || !refusal.Final() {
			t.Errorf("got %v, want it refused for good", err)
		}
		wantOutbox(t, s, 0)
	})
}

// Case 211: what is retried.
func TestRefusal(t *testing.T) {
	for status, want := range map[int]bool{400: true, 404: true, 408: false, 409: true, 422: true, 425: false, 429: false, 500: false, 503: false, 301: false} {
		if got := (&Refusal{Status: status}).Final(); got != want {
			t.Errorf("status %d: got final %v, want %v", status, got, want)
		}
	}
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-1": 0, "3": 3 * time.Second, "1000000000": maxRetryAfter, "99999999999999999999": 0,
	} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		_, err := NewClient(service.URL, "test").Send(t.Context(), "key", Mail{})
		service.Close()
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.RetryAfter != want {
			t.Errorf("Retry-After %q: got %v, want %v to wait", header, err, want)
		}
	}
}

func TestMood(t *testing.T) {
	const calls = 20_000
	counts := map[fault]int{}
	for i := range calls {
		key := fmt.Sprintf("later-%d-0", i/2)
		m := moodFor(seed, key, 1+i%2)
		if m != moodFor(seed, key, 1+i%2) {
			t.Fatalf("%s: got two moods for one call", key)
		}
		if m.work < fastest || m.work >= slowest {
			t.Errorf("%s: got %v of work, want %v to %v", key, m.work, fastest, slowest)
		}
		counts[m.fault]++
	}
	for f, share := range map[fault]float64{
		faultError: shareError, faultThrottle: shareThrottle, faultLostAnswer: shareLostAnswer, faultLateAnswer: shareLateAnswer,
	} {
		// ±0.01 is more than four standard deviations of the largest share.
		if got := float64(counts[f]) / calls; got < share-0.01 || got > share+0.01 {
			t.Errorf("fault %d: got the share %.3f, want %.3f", f, got, share)
		}
	}
}
