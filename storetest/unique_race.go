package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/later-queue/later"
)

func testUniqueRace(t *testing.T, open Open) {
	// Case 113: whoever comes first, it is one job.
	for _, hold := range holds {
		t.Run("of 50 who enqueue one key "+hold.name+" exactly one stores a job", func(t *testing.T) {
			w := newWorld(t, open)
			u := hold.unique
			u.Key = "k"
			var stored, id atomic.Int64
			ids := make([]int64, 50)
			inParallel(t, len(ids), func(ctx context.Context, n int) error {
				done, err := w.client().Enqueue(ctx, raw(`{}`), later.Options{Unique: &u})
				if err != nil {
					return err
				}
				if done.Outcome == later.Inserted {
					stored.Add(1)
					id.Store(done.ID)
				}
				ids[n] = done.ID
				return nil
			})
			equal(t, "jobs stored", stored.Load(), 1)
			for _, got := range ids {
				equal(t, "id", got, id.Load())
			}
			equal(t, "jobs", len(w.list(later.Filter{})), 1)
		})
	}

	// kept. Calls with the same keys in other orders wait for each other, and none
	// fails for it.
	t.Run("many who enqueue the same keys in other orders store one job for each", func(t *testing.T) {
		w := newWorld(t, open)
		const callers, keys, rounds = 8, 20, 5
		var stored [rounds][keys]atomic.Int64
		inParallel(t, callers, func(ctx context.Context, n int) error {
			order := rand.New(rand.NewPCG(uint64(n), 0))
			for round := range rounds {
				places := order.Perm(keys)
				requests := make([]later.Request, keys)
				for i, place := range places {
					requests[i] = later.Request{Args: raw(`{}`), Options: later.Options{
						Unique: &later.Unique{Key: fmt.Sprintf("%d-%d", round, place), OnConflict: everyConflict[n%2]},
					}}
				}
				done, err := w.client().EnqueueMany(ctx, requests)
				if err != nil {
					return err
				}
				for i, one := range done {
					if one.Outcome == later.Inserted {
						stored[round][places[i]].Add(1)
					}
				}
			}
			return nil
		})
		for round := range rounds {
			for key := range keys {
				equal(t, fmt.Sprintf("jobs stored of key %d-%d", round, key), stored[round][key].Load(), 1)
			}
		}
		equal(t, "jobs", len(w.list(later.Filter{Limit: 1000})), keys*rounds)
	})

	// kept: whoever is quicker has the key, and no dead job is lost to it.
	t.Run("operators who bring dead jobs back and requests with their keys leave one holder for each", func(t *testing.T) {
		w := newWorld(t, open)
		const keys = 40
		unique := func(key int) later.Options { return later.Options{Unique: &later.Unique{Key: fmt.Sprint(key)}} }
		var ends []later.Settlement
		for key := range keys {
			if _, err := w.client().Enqueue(w.ctx, raw(`{}`), unique(key)); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range w.claim(keys) {
			ends = append(ends, end(c, later.OutcomeDead))
		}
		w.settle(ends...)
		dead := listed(w.list(later.Filter{State: later.StateDead}))
		var stored atomic.Int64
		inParallel(t, 4, func(ctx context.Context, n int) error {
			switch n {
			case 0, 1:
				for i := range keys {
					done, err := w.client().Enqueue(ctx, raw(`{}`), unique((i*7+n*3)%keys))
					if err != nil {
						return err
					}
					if done.Outcome == later.Inserted {
						stored.Add(1)
					}
				}
			case 2:
				for {
					n, err := w.store.RetryDead(ctx, later.Filter{Limit: 3})
					if n == 0 {
						return unless(err, later.ErrKeyHeld)
					}
				}
			case 3:
				for i := len(dead) - 1; i >= 0; i-- {
					err := w.store.Retry(ctx, dead[i])
					if err == nil && w.find(dead[i]).Generation == 0 {
						return fmt.Errorf("job %d was not brought back", dead[i])
					}
					if err := unless(err, later.ErrKeyHeld, later.ErrNotFound); err != nil {
						return err
					}
				}
			}
			return nil
		})
		holders := map[string]int{}
		jobs := w.list(later.Filter{Limit: 1000})
		for _, info := range jobs {
			if info.State != later.StateDead {
				holders[info.UniqueKey]++
			}
		}
		for key := range keys {
			equal(t, fmt.Sprintf("holders of key %d", key), holders[fmt.Sprint(key)], 1)
		}
		equal(t, "jobs, dead or not", int64(len(jobs)), keys+stored.Load())
	})

	// alone, kept. Case 110: a key that is held until done is never held twice, nor do
	// two of its jobs run at once; and what was stored is run.
	t.Run("jobs of one key never run at once while they are enqueued, fail and end", func(t *testing.T) {
		w := newWorld(t, open)
		const keys, requests = 3, 400
		var running [keys]atomic.Int64
		var stored, finished, enqueuing atomic.Int64
		enqueuing.Store(3)
		inParallel(t, 6, func(ctx context.Context, n int) error {
			if n < 3 {
				defer enqueuing.Add(-1)
				for i := range requests {
					key := (i + n) % keys
					done, err := w.client().Enqueue(ctx, raw(fmt.Sprint(key)), later.Options{MaxAttempts: later.UnlimitedAttempts,
						Unique: &later.Unique{Key: fmt.Sprint(key), OnConflict: everyConflict[i%2]}})
					if err != nil {
						return err
					}
					if done.Outcome == later.Inserted {
						stored.Add(1)
					}
				}
				return nil
			}
			for round := 0; ; round++ {
				claimed, err := w.store.Claim(ctx, ask(2))
				if err != nil {
					return err
				}
				if len(claimed) == 0 && enqueuing.Load() == 0 && finished.Load() == stored.Load() {
					return nil
				}
				for _, c := range claimed {
					key := c.Payload[0] - '0'
					if running[key].Add(1) != 1 {
						return fmt.Errorf("two jobs of key %d run at once", key)
					}
					outcome := later.OutcomeDone
					if round%3 == 1 {
						outcome = later.OutcomeRetry
					}
					running[key].Add(-1)
					if refused, err := w.store.Settle(ctx, []later.Settlement{end(c, outcome)}); err != nil || len(refused) > 0 {
						return fmt.Errorf("job %d: refused %v, %w", c.ID, refused, err)
					}
					if outcome == later.OutcomeDone {
						finished.Add(1)
					}
				}
			}
		})
		equal(t, "jobs left", len(w.list(later.Filter{})), 0)
		equal(t, "jobs finished", finished.Load(), stored.Load())
	})
}
