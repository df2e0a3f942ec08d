// Package race is the races: who takes part, in which settings, and what is measured.
// A race is a file of this package that only lists that, and a line in All.
package race

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/later-queue/later/internal/spelling"
	"github.com/later-queue/later/lab/course"
)

// Race is one race. Its sizes are the full ones.
type Race struct {
	Name   string
	About  string
	Course course.Course
	// Lanes are those who take part. Their order says nothing: each round shuffles it.
	Lanes []Lane
	// Rounds is how often each lane is run.
	Rounds int

	Jobs    int64
	Seconds int
	Rate    int
	Callers int
	// Limit is how long the work of one round may take.
	Limit time.Duration

	// Quick is the part of the jobs that --quick takes: 10 is a tenth. 0: all.
	Quick int64
	// QuickSeconds replaces Seconds.
	QuickSeconds int
	// Lead is how long the workers of a light tenant's race run before it comes; --quick takes
	// a quarter of it.
	Lead time.Duration
	// Overhead is the most that setting up one round, filling included, may take on
	// top of Limit and Seconds; 0 is defaultOverhead.
	Overhead time.Duration
}

// defaultOverhead is chosen: 500,000 jobs are enqueued in at most a minute.
const defaultOverhead = 3 * time.Minute

// Lane is one contender in one setting. Numbers that are 0 are those of the race.
type Lane struct {
	Contender string
	Settings  string
	// Server is one of server.Names; "" is the one of the contender's database, where
	// there is only one.
	Server    string
	Processes int // 0 is 1
	Jobs      int64
	Condition string
	// Backlog says that the lane is about its number of Jobs: that is its Condition.
	Backlog bool
	// Note is for the reader of the results.
	Note string

	Warm     int64
	Hold     bool
	Fill     string
	FillJobs int64
	// Soak is how long workers work on what is filled before the round is measured; --quick
	// and a number of seconds shorten it.
	Soak time.Duration
	// Handler is how long a handler takes on average; 0 is a no-op.
	Handler time.Duration
	// Course replaces the race's.
	Course course.Course
	// Limit replaces the race's.
	Limit time.Duration
	// Whole keeps the sizes as they are with --quick.
	Whole bool
}

// String names the lane in messages.
func (l Lane) String() string {
	s := l.Contender + " " + l.Settings
	if l.Server != "" {
		s += " on " + l.Server
	}
	if l.Processes > 1 {
		s += fmt.Sprintf(" ×%d", l.Processes)
	}
	if l.Condition != "" {
		s += ", " + l.Condition
	}
	return s
}

// All are the races, in the order in which they are run.
var All = []Race{
	Drain, SQLite, Processes, Singles, Steady, Trickle, Light, Held, Backlog, Budgets,
}

// Find returns the race with this name.
func Find(name string) (Race, error) {
	for _, r := range All {
		if r.Name == name {
			return r, nil
		}
	}
	return Race{}, fmt.Errorf("no race is called %q%s; there are %s", name, spelling.DidYouMean(name, names()), strings.Join(names(), ", "))
}

func names() []string {
	var all []string
	for _, r := range All {
		all = append(all, r.Name)
	}
	return all
}

// scaled returns the race with its jobs, and those of its lanes, times part.
func (r Race) scaled(part float64) Race {
	scale := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		return max(1, int64(float64(n)*part+0.5))
	}
	lanes := make([]Lane, len(r.Lanes))
	for i, l := range r.Lanes {
		if !l.Whole {
			l.Jobs, l.Warm, l.FillJobs = scale(l.Jobs), scale(l.Warm), scale(l.FillJobs)
		} else if l.Jobs == 0 {
			l.Jobs = r.Jobs
		}
		if l.Backlog {
			l.Condition = fmt.Sprintf("%d ready", l.Jobs)
		}
		lanes[i] = l
	}
	r.Lanes, r.Jobs = distinct(lanes), scale(r.Jobs)
	return r
}

// distinct leaves out lanes that have become the same.
func distinct(lanes []Lane) []Lane {
	seen := map[string]bool{}
	return slices.DeleteFunc(lanes, func(l Lane) bool {
		again := seen[l.String()]
		seen[l.String()] = true
		return again
	})
}

// sized returns the race in the size that is asked for.
func (r Race) sized(o Options) Race {
	part := 1.0
	switch {
	case o.Jobs > 0 && r.Jobs > 0:
		part = float64(o.Jobs) / float64(r.Jobs)
	case o.Quick && r.Quick > 1:
		part = 1 / float64(r.Quick)
	}
	r = r.scaled(part)
	if o.Quick {
		r.Rounds, r.Lead = 1, r.Lead/4
		if r.QuickSeconds > 0 {
			r.Seconds = r.QuickSeconds
		}
	}
	if o.Rounds > 0 {
		r.Rounds = o.Rounds
	}
	if o.Seconds > 0 && r.Seconds > 0 {
		r.Seconds = o.Seconds
	}
	for i := range r.Lanes { // they are a copy
		r.Lanes[i].Soak = soaked(r.Lanes[i].Soak, o)
	}
	return r
}

// quickSoak is the part of a soak that --quick takes: ten minutes become ten seconds.
const quickSoak = 60

// soaked is the time of a soak in the size that is asked for.
func soaked(full time.Duration, o Options) time.Duration {
	switch {
	case full > 0 && o.Seconds > 0:
		return time.Duration(o.Seconds) * time.Second
	case o.Quick:
		return full / quickSoak
	}
	return full
}

// limit is the most that the work of one round of the lane takes.
func (r Race) limit(l Lane) time.Duration {
	limit := r.Limit
	if l.Limit > 0 {
		limit = l.Limit
	}
	return limit
}

// bound is the most that one round of the lane takes. Budgets wait for the limit
// twice.
func (r Race) bound(l Lane) time.Duration {
	overhead := r.Overhead
	if overhead == 0 {
		overhead = defaultOverhead
	}
	return 2*r.limit(l) + l.Soak + time.Duration(r.Seconds)*time.Second + overhead
}

// atMost is the most that the whole race takes.
func (r Race) atMost() time.Duration {
	var sum time.Duration
	for _, l := range r.Lanes {
		sum += time.Duration(r.Rounds) * r.bound(l)
	}
	return sum
}
