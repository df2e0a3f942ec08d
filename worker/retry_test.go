package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/worker"
)

func TestRetries(t *testing.T) {
	t.Run("texts that no database stores are stored", func(t *testing.T) {
		// Case 2; the table of TestDecide has the texts themselves.
		bubble(t, func(b *bed) {
			ends := []func() error{
				func() error { return errors.New("boom\x00tail") },
				func() error { return errors.New("caf\xe9") },
				func() error { panic(strings.Repeat("x", 5<<20)) },
				func() error { return errors.New("é€"[:4]) },
			}
			ids := b.tasks(len(ends), later.Options{MaxAttempts: 2})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error { return ends[j.Payload.N]() }), worker.Config{})
			b.sleep(time.Minute)
			for i, id := range ids {
				j := b.find(id)
				if j.State != later.StateDead || j.Attempt != 2 || len(j.Errors) != 2 {
					t.Errorf("job %d: got %s after %d attempts with %d errors, want dead, 2, 2", i, j.State, j.Attempt, len(j.Errors))
				}
			}
			r.stopped()
		})
	})

	t.Run("a text that the store refuses all the same is replaced", func(t *testing.T) {
		// Case 2: the attempt counts, the worker lives, and so do the others.
		bubble(t, func(b *bed) {
			refuse := errors.New("invalid byte sequence")
			b.store.set(func(op string, arg any) error {
				if op == "settle" {
					for _, s := range arg.([]later.Settlement) {
						if strings.Contains(s.Error, "cursed") {
							return refuse
						}
					}
				}
				return nil
			}, nil)
			ids := b.tasks(20, later.Options{MaxAttempts: 2})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.Payload.N == 7 {
					return errors.New("cursed")
				}
				return nil
			}), worker.Config{Concurrency: 20})
			b.sleep(5 * time.Second) // it is tried as it is a few times
			for i, id := range ids {
				if i == 7 {
					b.wantOutcomes(id, "retry")
					if got := b.find(id).Errors; len(got) != 1 || got[0].Error != "failed; its error could not be stored" {
						t.Errorf("got the history %+v, want one that says it", got)
					}
				} else {
					b.wantOutcomes(id, "done")
				}
			}
			b.sleep(time.Minute)
			if j := b.find(ids[7]); j.State != later.StateDead || len(j.Errors) != 2 {
				t.Errorf("got %s with %d errors, want dead with 2", j.State, len(j.Errors))
			}
			r.stopped()
		})
	})

	t.Run("a refusal that passes costs the error none of its text", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.store.failing(errors.New("permission denied (42501)"), "settle")
			id := b.tasks(1, later.Options{})[0]
			r := b.run(handle(func(context.Context, *later.Job[task]) error { return errors.New("boom") }), worker.Config{})
			b.sleep(time.Second)
			b.store.failing(nil)
			b.sleep(5 * time.Second)
			b.wantOutcomes(id, "retry")
			if got := b.find(id).Errors; len(got) != 1 || got[0].Error != "boom" {
				t.Errorf("got the history %+v, want the error's text", got)
			}
			b.wantLines(1, "WARN outcome could not be stored, trying again", "42501")
			r.stopped()
		})
	})

	t.Run("a result that the store never takes is kept without a storm", func(t *testing.T) {
		bubble(t, func(b *bed) {
			b.store.set(func(op string, arg any) error {
				if op == "settle" && arg.([]later.Settlement)[0].Lease.ID == 1 {
					return errors.New("permission denied")
				}
				return nil
			}, nil)
			ids := b.tasks(2, later.Options{})
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error { return nil }), worker.Config{Concurrency: 1})
			b.sleep(10 * time.Minute)
			b.wantOutcomes(ids[1], "done") // the other goes on, although there is one slot
			b.wantLines(1, "ERROR outcome could not be stored")
			if n := len(b.store.called("settle")); n > 300 {
				t.Errorf("got %d settles in 10 min, want one in about 5 s", n)
			}
			b.store.failing(nil)
			b.sleep(10 * time.Second)
			b.wantOutcomes(ids[0], "done")
			r.stopped()
		})
	})

	t.Run("delays grow up to the cap and never run over", func(t *testing.T) {
		// Case 91, through the runtime.
		bubble(t, func(b *bed) {
			h := later.NewHandlers()
			later.HandleWith(h, later.HandlerConfig{Backoff: later.Backoff{Base: time.Second, Factor: 10, Cap: time.Hour, Jitter: -1}},
				func(context.Context, *later.Job[task]) error { return errors.New("boom") })
			b.tasks(1, later.Options{MaxAttempts: 100})
			r := b.run(h, worker.Config{Poll: 10 * time.Second})
			b.sleep(5 * 24 * time.Hour)
			var last time.Duration
			n := 0
			for _, c := range b.store.called("settle") {
				s := c.arg.([]later.Settlement)[0]
				if s.Outcome != later.OutcomeRetry {
					continue
				}
				n++
				if s.Delay < last || s.Delay > time.Hour {
					t.Fatalf("got the delay %v after %v, want it to grow up to 1 h", s.Delay, last)
				}
				last = s.Delay
			}
			if n != 99 || last != time.Hour {
				t.Errorf("got %d retries, the last after %v, want 99 and 1 h", n, last)
			}
			r.stopped()
		})
	})

	t.Run("attempts and expiry: whichever limit comes first", func(t *testing.T) {
		// Case 94.
		for _, c := range []struct {
			every  time.Duration
			starts []time.Duration
			reason later.DeadReason
		}{
			{time.Minute, []time.Duration{0, 1, 2, 3, 4}, later.DeadFailed},
			{3 * time.Minute, []time.Duration{0, 3, 6, 9}, later.DeadExpired},
		} {
			bubble(t, func(b *bed) {
				begin := time.Now()
				var starts []time.Duration
				id := b.tasks(1, later.Options{MaxAttempts: 5, ExpiresIn: 10 * time.Minute})[0]
				r := b.run(handleEvery(c.every, func(context.Context, *later.Job[task]) error {
					starts = append(starts, time.Since(begin).Truncate(time.Minute)/time.Minute)
					return errors.New("boom")
				}), worker.Config{Poll: 100 * time.Millisecond})
				b.sleep(20 * time.Minute)
				if got, want := fmt.Sprint(starts), fmt.Sprint(c.starts); got != want {
					t.Errorf("every %v: got starts at %v min, want %v", c.every, got, want)
				}
				j := b.find(id)
				if j.State != later.StateDead || j.DeadReason != c.reason {
					t.Errorf("every %v: got %s (%q), want dead, %q", c.every, j.State, j.DeadReason, c.reason)
				}
				if c.reason == later.DeadExpired && !strings.Contains(j.Errors[len(j.Errors)-1].Error, "expires at") {
					t.Errorf("got the error %q, want the limit in it", j.Errors[len(j.Errors)-1].Error)
				}
				r.stopped()
			})
		}
	})

	t.Run("expiry is by the database's clock, however wrong this process's is", func(t *testing.T) {
		bubble(t, func(b *bed) {
			const behind = time.Hour // the database's clock
			b.store.alter = func(c *later.Claimed) {
				c.Now, c.ExpiresAt = c.Now.Add(-behind), c.ExpiresAt.Add(-behind)
			}
			id := b.tasks(1, later.Options{ExpiresIn: time.Minute})[0]
			begin := time.Now()
			r := b.run(handleEvery(40*time.Second, func(context.Context, *later.Job[task]) error {
				time.Sleep(10 * time.Second)
				return errors.New("boom")
			}), worker.Config{})
			b.sleep(15 * time.Second)
			b.wantOutcomes(id, "retry") // the next attempt begins at 50 s
			if at := b.find(id).Errors[0].At; !at.Equal(begin.Add(10*time.Second - behind)) {
				t.Errorf("got the error at %v, want it by the database's clock", at)
			}
			b.sleep(time.Minute)
			b.wantOutcomes(id, "retry dead")
			if got := b.find(id).DeadReason; got != later.DeadExpired {
				t.Errorf("got the reason %q, want expired", got)
			}
			r.stopped()
		})
	})

	t.Run("a job that expires while it waits is expired, not failed", func(t *testing.T) {
		// Case 94, the last sentence.
		bubble(t, func(b *bed) {
			id := b.enqueue(raw("unknown", `{}`), later.Options{ExpiresIn: time.Minute})
			r := b.run(handle(noop), worker.Config{})
			b.sleep(2 * time.Minute)
			b.wantOutcomes(id, "expired")
			r.stopped()
		})
	})

	t.Run("snoozes cost no attempt", func(t *testing.T) {
		bubble(t, func(b *bed) {
			runs := 0
			id := b.tasks(1, later.Options{MaxAttempts: 1})[0]
			r := b.run(handle(func(_ context.Context, j *later.Job[task]) error {
				if j.Attempt != 1 {
					t.Errorf("got attempt %d, want 1", j.Attempt)
				}
				if runs++; runs <= 300 {
					return later.Snooze(time.Second)
				}
				return nil
			}), worker.Config{})
			b.sleep(20 * time.Minute)
			if j := b.find(id); j.State != later.StateEnded || runs != 301 {
				t.Errorf("got %s after %d runs, want ended after 301", j.State, runs)
			}
			r.stopped()
		})
	})

	t.Run("ten thousand failures leave a short history", func(t *testing.T) {
		// Cases 89, 103.
		bubble(t, func(b *bed) {
			id := b.tasks(1, later.Options{MaxAttempts: later.UnlimitedAttempts})[0]
			n := 0
			r := b.run(handleEvery(time.Millisecond, func(context.Context, *later.Job[task]) error {
				if n++; n > 10_000 {
					return later.Permanent(errors.New("enough"))
				}
				return errors.New(fmt.Sprint(n, strings.Repeat("x", 64<<10)))
			}), worker.Config{Poll: time.Millisecond})
			b.sleep(time.Minute)
			j := b.find(id)
			if j.State != later.StateDead || j.Attempt != 10_001 {
				t.Fatalf("got %s after %d attempts, want dead after 10001", j.State, j.Attempt)
			}
			if len(j.Errors) > later.MaxAttemptErrors || j.Errors[0].Attempt != 1 || j.Errors[len(j.Errors)-1].Error != "enough" {
				t.Errorf("got %d errors, want at most %d with the first and the newest", len(j.Errors), later.MaxAttemptErrors)
			}
			for _, e := range j.Errors {
				if len(e.Error) > later.MaxErrorBytes {
					t.Errorf("got an error of %d bytes, want at most %d", len(e.Error), later.MaxErrorBytes)
				}
			}
			r.stopped()
		})
	})
}
