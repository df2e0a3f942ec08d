// Package mailapi is a third party for the demo: a mail service behind HTTP
// that fails as such services do, and a client for it.
package mailapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Mail is what the service is asked to send, and a line of its outbox.
type Mail struct {
	ID      string `json:"id,omitempty"`  // given by the service
	Key     string `json:"key,omitempty"` // the Idempotency-Key it came with
	To      string `json:"to"`
	Subject string `json:"subject"`
	Order   int64  `json:"order"`
}

// Config is what a [Server] needs. Written may be nil.
type Config struct {
	// Outbox is the file to which each mail is appended as a line of JSON.
	Outbox string
	// Seed decides which calls fail, and how: the n-th call with a key fails in
	// the same way in each run.
	Seed int64
	// Written is called after a mail was written and before the caller, who is
	// named as in [Client], is answered. again: an earlier call had written it.
	Written func(caller string, mail Mail, again bool)
}

// Stats counts calls. Each call is either written, absorbed, or one that failed
// before anything was written; LostAnswers and LateAnswers are among the first
// two.
type Stats struct {
	Calls       int
	Written     int // mails
	Absorbed    int // calls whose mail had been written by an earlier one
	Errors      int // 500, nothing written
	Throttled   int // 429 with Retry-After, nothing written
	HungUp      int // the caller went before anything was written
	LostAnswers int // 500 although the mail is written
	LateAnswers int // answered later than any client waits, the mail is written
}

// Failed is how many calls were not answered well.
func (s Stats) Failed() int {
	return s.Errors + s.Throttled + s.HungUp + s.LostAnswers + s.LateAnswers
}

// Server is the service. It is safe for concurrent use.
type Server struct {
	config   Config
	listener net.Listener
	http     *http.Server
	outbox   *os.File

	mu      sync.Mutex
	written map[string]Mail // by key
	calls   map[string]int  // by key
	busy    map[string]int  // calls under way, by caller
	stats   Stats
	broken  error // the first failure to write the outbox
}

// New returns a service that listens on a free port of 127.0.0.1. It answers
// once Serve is called.
func New(config Config) (*Server, error) {
	outbox, err := os.OpenFile(config.Outbox, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mail service: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("mail service: %w", err)
	}
	s := &Server{
		config: config, listener: listener, outbox: outbox,
		written: map[string]Mail{}, calls: map[string]int{}, busy: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mails", s.send)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return s, nil
}

// Serve answers calls until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("mail service: %w", err)
	}
	return nil
}

// URL is where the service listens.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Busy returns how many calls of a caller are under way.
func (s *Server) Busy(caller string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[caller]
}

// Close ends all calls, and Serve. It returns the first error with which a mail could not
// be written.
func (s *Server) Close() error {
	closed := s.http.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range []error{s.broken, closed, s.outbox.Close()} {
		if err != nil {
			return fmt.Errorf("mail service: %w", err)
		}
	}
	return nil
}

func (s *Server) send(w http.ResponseWriter, r *http.Request) {
	var mail Mail
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&mail); err != nil {
		http.Error(w, "the body is not a mail: "+err.Error(), http.StatusBadRequest)
		return
	}
	mail.Key = r.Header.Get("Idempotency-Key")
	if mail.Key == "" {
		http.Error(w, "the header Idempotency-Key is missing", http.StatusBadRequest)
		return
	}
	caller := r.UserAgent()
	mood := s.begin(caller, mail.Key)
	defer s.end(caller)

	if !wait(r.Context(), mood.work) {
		s.count(func(stats *Stats) { stats.HungUp++ })
		return
	}
	switch mood.fault {
	case faultError:
		s.count(func(stats *Stats) { stats.Errors++ })
		http.Error(w, "something went wrong", http.StatusInternalServerError)
		return
	case faultThrottle:
		s.count(func(stats *Stats) { stats.Throttled++ })
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	}
	mail, again, err := s.write(mail)
	if err != nil {
		http.Error(w, "the outbox is broken", http.StatusInternalServerError)
		return
	}
	if s.config.Written != nil {
		s.config.Written(caller, mail, again)
	}
	switch mood.fault {
	case faultLostAnswer:
		s.count(func(stats *Stats) { stats.LostAnswers++ })
		http.Error(w, "something went wrong after all", http.StatusInternalServerError)
		return
	case faultLateAnswer:
		s.count(func(stats *Stats) { stats.LateAnswers++ })
		wait(r.Context(), lateAnswer)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(mail) // a caller that has gone will ask again
}

func (s *Server) begin(caller, key string) mood {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Calls++
	s.calls[key]++
	s.busy[caller]++
	return moodFor(s.config.Seed, key, s.calls[key])
}

func (s *Server) end(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[caller]--
}

func (s *Server) count(add func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.stats)
}

// write appends the mail to the outbox, unless a mail with its key is there:
// then that one is returned.
func (s *Server) write(mail Mail) (written Mail, again bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier, ok := s.written[mail.Key]; ok {
		s.stats.Absorbed++
		return earlier, true, nil
	}
	mail.ID = fmt.Sprintf("mail-%04d", len(s.written)+1)
	line, err := json.Marshal(mail)
	if err == nil {
		_, err = s.outbox.Write(append(line, '\n'))
	}
	if err != nil {
		if s.broken == nil {
			s.broken = err
		}
		return Mail{}, false, err
	}
	s.written[mail.Key] = mail
	s.stats.Written++
	return mail, false, nil
}

// wait returns false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
