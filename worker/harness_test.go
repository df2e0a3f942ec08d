package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

// bed is a store and a worker inside a bubble with a fake clock.
type bed struct {
	*testing.T
	store *faulty
	log   *logbook
	// hears makes the workers' store one that has a Watch.
	hears *hearing
	// wakes makes it one that has the memory store's own Watch.
	wakes bool
}

// wakeful is a faulty store whose Watch is not hidden.
type wakeful struct{ *faulty }

func (w wakeful) Watch(worker string, queues []string) later.Watch {
	return w.Store.Watch(worker, queues)
}

// bubble runs f with a fake clock that only moves while everything waits.
func bubble(t *testing.T, f func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&bed{T: t, store: newFaulty(), log: &logbook{}})
	})
}

// sleep lets d pass, and all that happens until then.
func (b *bed) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// enqueue stores a job and returns its id.
func (b *bed) enqueue(args later.Args, opts later.Options) int64 {
	b.Helper()
	done, err := b.store.Store.Enqueue(b.Context(), args, opts)
	if err != nil {
		b.Fatalf("enqueue: %v", err)
	}
	return done.ID
}

// tasks enqueues n tasks and returns their ids.
func (b *bed) tasks(n int, opts later.Options) []int64 {
	b.Helper()
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = b.enqueue(task{N: i}, opts)
	}
	return ids
}

// find returns the job as the store knows it.
func (b *bed) find(id int64) *later.JobInfo {
	b.Helper()
	info, err := b.store.Store.Find(b.Context(), id)
	if err != nil {
		b.Fatalf("find job %d: %v", id, err)
	}
	return info
}

// outcomes are the outcomes of the job's finished attempts, joined.
func (b *bed) outcomes(id int64) string {
	b.Helper()
	var outcomes []string
	for _, entry := range b.find(id).Log {
		outcomes = append(outcomes, string(entry.Outcome))
	}
	return strings.Join(outcomes, " ")
}

// wantOutcomes checks the outcomes of the job's attempts.
func (b *bed) wantOutcomes(id int64, want string) {
	b.Helper()
	if got := b.outcomes(id); got != want {
		b.Errorf("job %d: got the outcomes %q, want %q", id, got, want)
	}
}

// running is a worker whose Run is under way.
type running struct {
	*worker.Worker
	b      *bed
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func (b *bed) worker(h *later.Handlers, cfg worker.Config) *worker.Worker {
	b.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(b.log)
	}
	var store later.Store = b.store
	if b.hears != nil {
		store = b.hears
	}
	if b.wakes {
		store = wakeful{b.store}
	}
	w, err := worker.New(store, h, cfg)
	if err != nil {
		b.Fatalf("new worker: %v", err)
	}
	return w
}

// run starts a worker. The test ends it with stop, crash or a Stop of its own.
func (b *bed) run(h *later.Handlers, cfg worker.Config) *running {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Worker: b.worker(h, cfg), b: b, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = r.Run(ctx)
	}()
	b.Cleanup(func() { r.stop() }) // also after a Fatal
	return r
}

// stop cancels Run's context and returns what Run returns.
func (r *running) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// stopped ends the worker and checks that nothing was left behind.
func (r *running) stopped() {
	r.b.Helper()
	if err := r.stop(); err != nil {
		r.b.Errorf("got the error %v from Run, want none", err)
	}
}

// drain runs jobs until none is due.
func (b *bed) drain(h *later.Handlers, cfg worker.Config) worker.Summary {
	b.Helper()
	sum, err := b.worker(h, cfg).Drain(b.Context())
	if err != nil {
		b.Fatalf("drain: %v", err)
	}
	return sum
}

// handle returns handlers whose one kind is task.
func handle(fn func(ctx context.Context, job *later.Job[task]) error) *later.Handlers {
	h := later.NewHandlers()
	later.Handle(h, fn)
	return h
}

// handleWith is handle with a fixed delay between the attempts.
func handleEvery(d time.Duration, fn func(ctx context.Context, job *later.Job[task]) error) *later.Handlers {
	h := later.NewHandlers()
	later.HandleWith(h, later.HandlerConfig{Backoff: later.Backoff{Base: d, Factor: 1, Jitter: -1}}, fn)
	return h
}

// deaf is a handler that ignores its context until release is closed.
func deaf(release chan struct{}) func(context.Context, *later.Job[task]) error {
	return func(context.Context, *later.Job[task]) error {
		<-release
		return nil
	}
}

// obedient waits for d or for its context's end, whose cause it returns.
func obedient(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
}

// logbook is a slog.Handler that keeps what was logged.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logbook) WithGroup(string) slog.Handler            { return l }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// count returns how many lines have all of parts in them.
func (l *logbook) count(parts ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
next:
	for _, line := range l.lines {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		n++
	}
	return n
}

// wantLine checks that exactly n lines have all of parts in them.
func (b *bed) wantLines(n int, parts ...string) {
	b.Helper()
	if got := b.log.count(parts...); got != n {
		b.Errorf("got %d log lines with %q, want %d; the log is\n%s", got, parts, n, strings.Join(b.log.lines, "\n"))
	}
}

// beside returns a bed whose workers have a connection of their own to the same
// store.
func (b *bed) beside() *bed {
	other := *b
	other.store = &faulty{Store: b.store.Store}
	return &other
}

var everything = []string{"check", "claim", "next due", "sweep", "settle", "renew", "cancel requests", "beat", "leave", "maintain"}

// crash ends a worker as SIGKILL would: nothing of it reaches the store any
// more.
func (r *running) crash() {
	r.b.store.failing(later.ErrUnavailable, everything...)
	now, cancel := context.WithCancel(context.Background())
	cancel()
	r.Stop(now) // its error is that it could not store anything
	<-r.done
}

// loseAll lets the due jobs be claimed so many times by a worker that is never
// heard of again.
func (b *bed) loseAll(times int) {
	b.Helper()
	for range times {
		if _, err := b.store.Store.Claim(b.Context(), later.ClaimRequest{
			Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: 1000}}, Limit: 1000, Kinds: []string{"task"},
			Worker: "killed", Token: later.NewToken(), Lease: time.Second,
		}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
	}
}

// loseOnce lets the job be claimed by a worker that is never heard of again.
func (b *bed) loseOnce(id int64) {
	b.Helper()
	queues := []later.QueueLimit{{Queue: later.DefaultQueue, Limit: 1000}}
	jobs, err := b.store.Store.Claim(b.Context(), later.ClaimRequest{
		Queues: queues, Limit: 1000, Kinds: []string{"task"}, Worker: "killed", Token: later.NewToken(), Lease: time.Second,
	})
	if err != nil || len(jobs) != 1 || jobs[0].ID != id {
		b.Fatalf("got the jobs %v and the error %v, want job %d", jobs, err, id)
	}
	time.Sleep(1100 * time.Millisecond)
}
