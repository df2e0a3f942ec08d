package course

import (
	"context"
	"errors"
	"time"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/drive"
	"github.com/later-queue/later/lab/server"
)

// Held enqueues at a rate while the workers work and another transaction holds the
// snapshot of the start. The curves are over the time that it has been held.
func Held(ctx context.Context, t *Track, r *data.Round) (err error) {
	if err := t.setup(ctx); err != nil {
		return err
	}
	release, err := server.Hold(ctx, t.Launcher.Env.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	files := files{t.Launcher.Env.Dir, t.Launcher.Env.Processes}
	crew, err := t.Launcher.StartCrew(ctx, "work", files.started)
	if err != nil {
		return err
	}
	before, err := t.peek(ctx)
	if err != nil {
		return errors.Join(err, crew.Stop())
	}
	start := time.Now()
	// A point a second in a short race, 100 in a long one.
	step := max(1, float64(t.Seconds)/100)
	sampler := startSampler(ctx, t, crew, start, step)
	answer, err := t.Launcher.Call(ctx, "produce", files.acked(), itoa(t.Rate), itoa(t.Seconds))
	end := time.Now()
	cpu, sampleErr := sampler.stop()
	if err := errors.Join(err, sampleErr, crew.Stop()); err != nil {
		return err
	}
	after, err := t.read(ctx) // the holder may stay
	if err != nil {
		return err
	}
	if err := errUnanswered(answer.Jobs); err != nil {
		return err
	}
	r.Jobs, r.Seconds = *answer.Jobs, answer.Seconds
	r.EnqueueRate = float64(r.Jobs) / r.Seconds
	j, err := files.join(end)
	if err != nil {
		return err
	}
	r.Rate = float64(len(j.started)) / r.Seconds
	r.Missing = j.missing
	charge(r, after.Since(before), int64(len(j.started)))
	r.ClientCPU = per(micros(crew.CPU()), int64(len(j.started)))
	summarize(r, j.latencies)
	r.MaxMemoryBytes = crew.Memory()
	from := start.UnixMicro()
	r.Series = map[string][]data.Point{
		"acked":         drive.PerSecond(j.acked, from, step),
		"done":          drive.PerSecond(j.started, from, step),
		"p50_us":        drive.OverTime(j.latencies, from, step, 0.5),
		"p99_us":        drive.OverTime(j.latencies, from, step, 0.99),
		"server_cpu_us": cpu,
	}
	r.Points = r.Series["done"]
	return nil
}

// sampler reads the server's processor time while a race goes on.
type sampler struct {
	end    chan struct{}
	ended  chan struct{}
	points []data.Point // [seconds, microseconds per job done in the step before]
	err    error
}

func startSampler(ctx context.Context, t *Track, crew *drive.Crew, start time.Time, step float64) *sampler {
	s := &sampler{end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		tick := time.NewTicker(time.Duration(step * float64(time.Second)))
		defer tick.Stop()
		last, err := t.peek(ctx)
		lastDone, _ := crew.Progress()
		for err == nil {
			select {
			case <-s.end:
				return
			case <-tick.C:
			}
			var now server.Usage
			now, err = t.peek(ctx)
			done, _ := crew.Progress()
			if done > lastDone {
				cpu := per(micros(now.CPU-last.CPU), done-lastDone)
				s.points = append(s.points, data.Point{time.Since(start).Seconds(), cpu})
			}
			last, lastDone = now, done
		}
		s.err = err
	}()
	return s
}

func (s *sampler) stop() ([]data.Point, error) {
	close(s.end)
	<-s.ended
	return s.points, s.err
}
