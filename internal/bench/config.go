package bench

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/later-queue/later/worker"
)

// Phase is a part of a run that is measured by itself.
type Phase string

// The phases, in the order in which they are run.
const (
	Bulk      Phase = "bulk"       // many jobs in each call
	Drain     Phase = "drain"      // those of Bulk, done as fast as it goes
	DrainHeld Phase = "drain_held" // the same once more, under a held snapshot
	Singles   Phase = "singles"    // one job in each call, many callers
	Steady    Phase = "steady"     // jobs at a fixed rate, workers running
	Trickle   Phase = "trickle"    // one job at a time, nothing else to do
)

// Phases are those that can be asked for; [Config].HoldSnapshot adds DrainHeld.
func Phases() []Phase { return []Phase{Bulk, Drain, Singles, Steady, Trickle} }

// The values of a zero [Config]. Chosen: together less than a minute, and long
// enough for a table to be vacuumed while it is used.
const (
	DefaultJobs    = 100_000
	DefaultBatch   = 1000
	DefaultCallers = 100
	DefaultRate    = 1000
	DefaultFor     = 10 * time.Second
	DefaultTimeout = 15 * time.Minute
	// DefaultPayload is what the figures in Later's documentation were measured with.
	DefaultPayload = 110
	// TrickleEvery is the time between two jobs of Trickle.
	TrickleEvery = 50 * time.Millisecond
)

// The bounds of a [Config]. Chosen: the samples of a run fit into memory (16 bytes
// for each job of Steady), and a row into a statement.
const (
	MaxJobs    = 100_000_000
	MaxBatch   = 10_000
	MaxCallers = 10_000
	MaxSteady  = 10_000_000 // jobs: Rate times For
	MaxSpread  = 100_000    // kinds, tenants, priorities have bounds of their own
	MinPayload = 40
	MaxPayload = 1 << 20
)

// Config says what is measured. Of most fields zero is the default.
type Config struct {
	// URL is the database, as in package open.
	URL string
	// Phases are what is measured; none is all. Drain brings Bulk along.
	Phases []Phase

	Jobs    int           // of Bulk and Drain
	Batch   int           // jobs in each call of Bulk
	Callers int           // goroutines of Singles
	Rate    int           // jobs a second of Steady
	For     time.Duration // how long Singles, Steady and Trickle enqueue
	// Timeout bounds the run; what has been made is removed after it.
	Timeout time.Duration

	// Workers is the number of workers, each with a store and connections of
	// its own, as in a process of its own; they share the CPU time of this
	// one. Concurrency is the number of slots of each.
	Workers     int
	Concurrency int

	Payload    int // bytes of each payload
	Kinds      int // over which the jobs are spread; 0 is 1
	Tenants    int // 0 is none
	Priorities int // 0 is 1
	NoLog      bool

	// Backlog is the number of ready jobs of a kind that no worker here has,
	// which wait beside the others in the same queue, in front of them.
	// Scheduled is the number of jobs of the same kinds that are due next week.
	Backlog, Scheduled int
	// HoldSnapshot has another connection hold a snapshot of the database from the end
	// of the first Drain on, and adds DrainHeld.
	HoldSnapshot bool

	// Made is called once with the name of the place that the run makes: from then on until Run
	// returns, a process that is killed leaves it. nil is nobody.
	Made func(place string)
	// Progress is called when something has changed, from one goroutine, at most
	// every 100 ms within a step; nil is nobody. It must return soon.
	Progress func(Step)
	// Logger gets the warnings of stores and workers; nil is none.
	Logger *slog.Logger
}

func (c Config) wants(p Phase) bool { return len(c.Phases) == 0 || slices.Contains(c.Phases, p) }

// tellMade tells who wants to know.
func (c Config) tellMade(p place) {
	if c.Made != nil {
		c.Made(p.name())
	}
}

// withDefaults returns c with its zero values filled in, or says which value is
// out of range.
func (c Config) withDefaults() (Config, error) {
	for _, p := range c.Phases {
		if !slices.Contains(Phases(), p) {
			return c, fmt.Errorf("bench: Phases has %q; there are %v", p, Phases())
		}
	}
	for _, f := range []struct {
		name                string
		value               *int
		byZero, least, most int
	}{
		{"Jobs", &c.Jobs, DefaultJobs, 1, MaxJobs},
		{"Batch", &c.Batch, DefaultBatch, 1, MaxBatch},
		{"Callers", &c.Callers, DefaultCallers, 1, MaxCallers},
		{"Rate", &c.Rate, DefaultRate, 1, MaxSteady},
		{"Workers", &c.Workers, 1, 1, 1000},
		{"Concurrency", &c.Concurrency, worker.DefaultConcurrency, 1, worker.MaxConcurrency},
		{"Payload", &c.Payload, DefaultPayload, MinPayload, MaxPayload},
		{"Kinds", &c.Kinds, 1, 1, 1000},
		{"Tenants", &c.Tenants, 0, 0, MaxSpread},
		{"Priorities", &c.Priorities, 1, 1, 1000},
		{"Backlog", &c.Backlog, 0, 0, MaxJobs},
		{"Scheduled", &c.Scheduled, 0, 0, MaxJobs},
	} {
		if *f.value == 0 {
			*f.value = f.byZero
		}
		if *f.value < f.least || *f.value > f.most {
			return c, fmt.Errorf("bench: %s is %d; it goes from %d to %d", f.name, *f.value, f.least, f.most)
		}
	}
	if c.For == 0 {
		c.For = DefaultFor
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.For < 0 {
		return c, fmt.Errorf("bench: For is %v; it must not be negative", c.For)
	}
	if c.Timeout < 0 {
		return c, fmt.Errorf("bench: Timeout is %v; it must not be negative", c.Timeout)
	}
	if jobs := float64(c.Rate) * c.For.Seconds(); jobs > MaxSteady {
		return c, fmt.Errorf("bench: Rate %d for %v is %.0f jobs; at most %d are remembered", c.Rate, c.For, jobs, MaxSteady)
	}
	c.Logger = quiet(c.Logger)
	return c, nil
}
