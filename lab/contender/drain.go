package contender

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// reportEvery is how often a worker says how far it is. The protocol asks for 100 ms;
// a small drain takes less than a second, so this is finer.
const reportEvery = 20 * time.Millisecond

// drain works until the input ends. With lines it notes when each handler starts, of the
// tenant's jobs if there is one.
func (p *Process) drain(ctx context.Context, c Contender, lines *lineFile) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		// Whatever ends the input, an error of it too: it is time to stop.
		_, _ = io.Copy(io.Discard, p.In)
		stop()
	}()

	var done atomic.Int64
	report := func() error {
		n := done.Load()
		return p.print(Answer{Done: &n, At: time.Now().UnixMicro()})
	}
	var reporter sync.WaitGroup
	ended := make(chan struct{})
	reporter.Go(func() {
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		var last int64
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			if n := done.Load(); n != last {
				last = n
				if report() != nil {
					return // the driver is gone; the last report says so too
				}
			}
		}
	})
	var once sync.Once
	ready := func() { once.Do(func() { _ = p.print(Answer{Ready: true}) }) }
	err := c.Work(ctx, ready, func(job Payload) {
		if lines != nil && (p.Env.Tenant == "" || job.Tenant == p.Env.Tenant) {
			lines.add(job.Seq, time.Now())
		}
		if p.Handler > 0 {
			time.Sleep(p.Handler/2 + rand.N(p.Handler))
		}
		done.Add(1)
	})
	close(ended)
	reporter.Wait()
	if err != nil {
		return err
	}
	return report()
}
