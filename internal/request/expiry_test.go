package request

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

func TestExpiry(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for _, c := range []struct {
		name      string
		options   later.Options
		refused   bool // whatever the clock says
		neverRuns bool // by the clock
	}{
		{"no expiry", later.Options{Delay: time.Hour}, false, false},
		{"an expiry alone", later.Options{ExpiresIn: time.Hour}, false, false},
		{"due before it expires", later.Options{Delay: time.Minute, ExpiresIn: time.Hour}, false, false},
		{"due when it expires", later.Options{Delay: time.Hour, ExpiresIn: time.Hour}, true, true},
		{"due after it expires", later.Options{Delay: 2 * time.Hour, ExpiresIn: time.Hour}, true, true},
		{"instants, in order", later.Options{RunAt: in(1), ExpiresAt: in(2)}, false, false},
		{"instants, the wrong way round", later.Options{RunAt: in(2), ExpiresAt: in(1)}, true, true},
		{"an expiry that has passed", later.Options{ExpiresAt: in(-time.Second)}, false, true},
		{"an instant behind an expiry", later.Options{RunAt: in(2 * time.Hour), ExpiresIn: time.Hour}, false, true},
		{"a delay behind an instant", later.Options{Delay: 2 * time.Hour, ExpiresAt: in(time.Hour)}, false, true},
		{"a run_at that has passed", later.Options{RunAt: in(-time.Hour), ExpiresIn: time.Minute}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := Job{Options: c.options}
			if err := job.CheckExpiry(); (err != nil) != c.refused {
				t.Errorf("got the error %v, want one: %v", err, c.refused)
			}
			if got := job.NeverRuns(now); got != c.neverRuns {
				t.Errorf("never runs: got %v, want %v", got, c.neverRuns)
			}
		})
	}
}
