package demo

import (
	"fmt"
	"sync"
	"time"
)

// story is what happened, in order. It is safe for concurrent use.
type story struct {
	begun time.Time

	mu     sync.Mutex
	heard  func(event) // nil: nobody listens
	events []event
}

// event is one thing that happened.
type event struct {
	after time.Duration // since the beginning
	text  string
}

func newStory() *story { return &story{begun: time.Now()} }

// listen has heard called for each event from now on, one after the other.
func (s *story) listen(heard func(event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = heard
}

// elapsed is the time since the beginning.
func (s *story) elapsed() time.Duration { return time.Since(s.begun) }

// tell adds an event.
func (s *story) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := event{after: s.elapsed(), text: fmt.Sprintf(format, args...)}
	s.events = append(s.events, e)
	if s.heard != nil {
		s.heard(e)
	}
}

// all returns the events so far.
func (s *story) all() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]event(nil), s.events...)
}

// seconds is a time since the beginning, as it is shown.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
