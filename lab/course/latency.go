package course

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/drive"
)

const (
	// warmUp is what latencies leave out at the start: connections are made,
	// statements prepared. Chosen; it is the same for all.
	warmUp = time.Second
	// afterwards is how long a worker gets to start what was enqueued last. Chosen:
	// above the longest poll interval of a contender's defaults, 5 s.
	afterwards = 8 * time.Second
)

// Steady enqueues at a rate while the workers work, on the same machine, and takes the
// time from each enqueue's answer to the start of its handler.
func Steady(ctx context.Context, t *Track, r *data.Round) error {
	return t.latency(ctx, r, func(file string) (n int64, err error) {
		n, r.EnqueueRate, err = t.produce(ctx, file)
		return n, err
	})
}

// produce enqueues at the track's rate, and returns how many jobs that came to, and how many
// a second.
func (t *Track) produce(ctx context.Context, file string) (n int64, rate float64, err error) {
	answer, err := t.Launcher.Call(ctx, "produce", file, itoa(t.Rate), itoa(t.Seconds))
	if err != nil || answer.Jobs == nil {
		return 0, 0, errors.Join(err, errUnanswered(answer.Jobs))
	}
	return *answer.Jobs, float64(*answer.Jobs) / answer.Seconds, nil
}

// trickleEvery is how far apart the jobs of a trickle are: the workers are idle long
// before the next one comes.
const trickleEvery = 50 * time.Millisecond

// Trickle enqueues one job at a time into an idle system.
func Trickle(ctx context.Context, t *Track, r *data.Round) error {
	return t.latency(ctx, r, func(file string) (int64, error) {
		answer, err := t.Launcher.Call(ctx, "trickle", file, itoa(int(trickleEvery.Milliseconds())), fmt.Sprint(t.Jobs))
		if err != nil || answer.Jobs == nil {
			return 0, errors.Join(err, errUnanswered(answer.Jobs))
		}
		return *answer.Jobs, nil
	})
}

func errUnanswered(jobs *int64) error {
	if jobs == nil {
		return errors.New("it did not say how many jobs it has enqueued")
	}
	return nil
}

// latency runs workers beside what enqueues.
func (t *Track) latency(ctx context.Context, r *data.Round, enqueue func(file string) (int64, error)) error {
	if err := t.setup(ctx); err != nil {
		return err
	}
	files := files{t.Launcher.Env.Dir, t.Launcher.Env.Processes}
	before, err := t.read(ctx)
	if err != nil {
		return err
	}
	crew, err := t.Launcher.StartCrew(ctx, "work", files.started)
	if err != nil {
		return err
	}
	n, err := enqueue(files.acked())
	if err == nil {
		_, err = crew.Wait(ctx, n, time.Now().Add(afterwards))
	}
	end := time.Now()
	if err := errors.Join(err, crew.Stop()); err != nil {
		return err
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	r.Jobs = n
	charge(r, after.Since(before), n)
	r.ClientCPU = per(micros(crew.CPU()), n)
	r.MaxMemoryBytes = crew.Memory()
	j, err := files.join(end)
	if err != nil {
		return err
	}
	r.Missing = j.missing
	summarize(r, afterWarmUp(j.latencies))
	return nil
}

// summarize writes down the distribution.
func summarize(r *data.Round, latencies []drive.Latency) {
	sorted := drive.Micros(latencies)
	if len(sorted) == 0 {
		return
	}
	// Stamps are whole microseconds. A handler may start before the enqueue's answer has
	// come; less than one is one, so that 0 remains what it is elsewhere: no figure.
	at := func(p float64) float64 { return max(1, data.Percentile(sorted, p)) }
	r.P50, r.P90, r.P99, r.P999 = at(0.5), at(0.9), at(0.99), at(0.999)
	r.Max = sorted[len(sorted)-1]
	r.Points = data.Quantiles(sorted)
}

// afterWarmUp leaves out the jobs of the first second. The latencies are in order.
func afterWarmUp(latencies []drive.Latency) []drive.Latency {
	if len(latencies) == 0 {
		return nil
	}
	from := latencies[0].AckedAt + warmUp.Microseconds()
	i := slices.IndexFunc(latencies, func(l drive.Latency) bool { return l.AckedAt >= from })
	if i < 0 {
		return nil
	}
	return latencies[i:]
}

// files are the files of one round: what was enqueued, and what was started by each
// work process.
type files struct {
	dir       string
	processes int
}

func (f files) acked() string              { return filepath.Join(f.dir, "acked") }
func (f files) startedBy(p int) string     { return filepath.Join(f.dir, fmt.Sprintf("started-%d", p)) }
func (f files) started(p int) (a []string) { return []string{f.startedBy(p)} }

// joined is what the files of a round say together.
type joined struct {
	latencies      []drive.Latency
	missing        int64
	acked, started drive.Stamps
}

// join reads and pairs them; the workers were stopped at end.
func (f files) join(end time.Time) (j joined, err error) {
	if j.acked, err = drive.ReadStamps(f.acked()); err != nil {
		return j, err
	}
	var names []string
	for p := range max(f.processes, 1) {
		names = append(names, f.startedBy(p))
	}
	if j.started, err = drive.ReadStamps(names...); err != nil {
		return j, err
	}
	j.latencies, j.missing = drive.Join(j.acked, j.started, end.UnixMicro())
	return j, nil
}
