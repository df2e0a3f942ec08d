// Package course is how one round of a race is run: what is started, what is counted,
// and between which two moments.
package course

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/drive"
	"github.com/later-queue/later/lab/server"
)

// Track is what one round is run with. The database is empty.
type Track struct {
	Server   server.Server
	Launcher *drive.Launcher

	Jobs    int64         // to be done
	Seconds int           // of enqueuing, where that goes by time
	Rate    int           // of enqueuing, jobs a second
	Callers int           // that enqueue at the same time
	Limit   time.Duration // of working: what is not done by then counts as not done

	// What makes a round of a budget; see Budget.
	Warm     int64
	Hold     bool
	Soak     time.Duration
	Fill     string
	FillJobs int64 // in a light tenant's race the heavy tenant's; see Light

	// Lead is how long the workers run before the light tenant comes; see Light.
	Lead time.Duration
}

// Course runs one round and writes its figures into r.
type Course func(ctx context.Context, t *Track, r *data.Round) error

// setup makes the tables.
func (t *Track) setup(ctx context.Context) error {
	_, err := t.Launcher.Call(ctx, "setup")
	return err
}

// read returns what the server has used so far, when no process of the contender runs.
func (t *Track) read(ctx context.Context) (server.Usage, error) {
	if q, ok := t.Server.(server.Quieter); ok {
		if err := q.Quiet(ctx, t.Launcher.Env.URL); err != nil {
			return server.Usage{}, err
		}
	}
	return t.peek(ctx)
}

// peek is read while the contender works.
func (t *Track) peek(ctx context.Context) (server.Usage, error) {
	return t.Server.Read(ctx, t.Launcher.Env.URL)
}

// enqueue enqueues n jobs in bulk and writes down what that took.
func (t *Track) enqueue(ctx context.Context, n int64, r *data.Round) error {
	before, err := t.read(ctx)
	if err != nil {
		return err
	}
	answer, err := t.Launcher.Call(ctx, "enqueue", fmt.Sprint(n))
	if err != nil {
		return err
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	if answer.Jobs == nil || *answer.Jobs != n || answer.Seconds <= 0 {
		return fmt.Errorf("enqueue %d: it answered %+v", n, answer)
	}
	used := after.Since(before)
	r.EnqueueRate = float64(n) / answer.Seconds
	r.EnqueueWAL = per(float64(used.WAL), n)
	r.EnqueueCPU = per(micros(used.CPU), n)
	return nil
}

// charge writes down what n jobs have used of the server.
func charge(r *data.Round, used server.Usage, n int64) {
	r.ServerCPU = per(micros(used.CPU), n)
	r.WALBytes = per(float64(used.WAL), n)
	r.Commits = per(float64(used.Commits), n)
	r.TuplesInserted = per(float64(used.Inserted), n)
	r.TuplesUpdated = per(float64(used.Updated), n)
	r.TuplesDeleted = per(float64(used.Deleted), n)
}

// remaining asks the database how many jobs there are, and writes down how many of
// them have been handled.
func (t *Track) remaining(ctx context.Context, enqueued, done int64, r *data.Round) error {
	answer, err := t.Launcher.Call(ctx, "remaining")
	if err != nil {
		return err
	}
	if answer.Remaining == nil {
		return fmt.Errorf("remaining: it answered %+v", answer)
	}
	r.Left = max(0, *answer.Remaining-(enqueued-done))
	return nil
}

func noArgs(int) []string { return nil }

func per(sum float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func itoa(n int) string { return strconv.Itoa(n) }
