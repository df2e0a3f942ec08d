package storetest

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func testInsert(t *testing.T, open Open) {
	// kept: the documented defaults, and nothing else, are in the row.
	t.Run("a job without options has the defaults", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{})
		info := w.state(id, later.StateReady)
		between(t, "created_at", info.CreatedAt, info.Now.Add(-patience), info.Now)
		between(t, "run_at", info.RunAt, info.CreatedAt, info.Now)
		sameRecord(t, "record", info.Record, later.Record{
			ID: id, Queue: later.DefaultQueue, Kind: kind, Payload: []byte(`{}`), RunAt: info.RunAt,
			MaxAttempts: later.DefaultMaxAttempts, Timeout: later.DefaultTimeout, CreatedAt: info.CreatedAt,
		})
	})

	// kept: the result says which job is which.
	t.Run("many jobs get their ids in the order of the requests", func(t *testing.T) {
		w := newWorld(t, open)
		var requests []later.Request
		for i := range 300 {
			requests = append(requests, later.Request{Args: raw(`{}`), Options: later.Options{Priority: int16(i)}})
		}
		done, err := w.client().EnqueueMany(w.ctx, requests)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range w.claim(len(requests)) {
			equal(t, "id of the job with that priority", c.ID, done[c.Priority].ID)
			equal(t, "priority", int(c.Priority), i)
		}
	})

	t.Run("no jobs are nothing to do", func(t *testing.T) {
		w := newWorld(t, open)
		done, err := w.store.Insert(w.ctx, nil)
		if err != nil || len(done) != 0 {
			t.Errorf("got %v, %v, want nothing", done, err)
		}
	})

	// Case 209 (the typed error): a refused job takes the others of its call
	// along, and nothing is written.
	t.Run("many jobs are stored all or none", func(t *testing.T) {
		w := newWorld(t, open)
		_, err := w.client().EnqueueMany(w.ctx, []later.Request{
			{Args: raw(`{}`)}, {Args: raw(`{"a":`)}, {Args: raw(`{}`)},
		})
		isError(t, "EnqueueMany", err, later.ErrInvalid)
		equal(t, "jobs", len(w.list(later.Filter{})), 0)
	})

	// kept: an id names one job for ever, also when the newest has gone (SQLite
	// gives the highest rowid again unless told otherwise).
	t.Run("an id is never given twice", func(t *testing.T) {
		w := newWorld(t, open)
		seen := map[int64]bool{}
		for range 5 {
			ids := w.enqueueMany(3, raw(`{}`), later.Options{})
			for _, id := range ids {
				if seen[id] {
					t.Fatalf("id %d was given twice", id)
				}
				seen[id] = true
			}
			for _, c := range w.claim(2) {
				w.settle(end(c, later.OutcomeDone))
			}
			for _, info := range w.list(later.Filter{}) {
				if err := w.store.Delete(w.ctx, info.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	})

	// All times are the database's: a client whose clock runs ahead or behind
	// cannot put a job before those that wait.
	t.Run("a run_at that has passed is stored as now", func(t *testing.T) {
		w := newWorld(t, open)
		for _, at := range []time.Time{
			time.Now().Add(-48 * time.Hour),
			time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC),
			time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
		} {
			info := w.state(w.enqueue(later.Options{RunAt: at}), later.StateReady)
			between(t, "run_at of "+at.String(), info.RunAt, info.CreatedAt, info.Now)
		}
		w.claim(3)
	})

	t.Run("a delay counts from the insert by the store's clock", func(t *testing.T) {
		w := newWorld(t, open)
		info := w.state(w.enqueue(later.Options{Delay: long}), later.StateScheduled)
		equalTimes(t, "run_at", info.RunAt, info.CreatedAt.Add(long))
		w.claimNone()
	})

	t.Run("an expiry is kept, and one that is relative counts from the insert", func(t *testing.T) {
		w := newWorld(t, open)
		at := time.Date(2100, 2, 28, 23, 59, 59, 0, time.FixedZone("", 3600))
		equalTimes(t, "expires_at", w.find(w.enqueue(later.Options{ExpiresAt: at})).ExpiresAt, at)
		info := w.find(w.enqueue(later.Options{ExpiresIn: long}))
		equalTimes(t, "expires_at of a relative one", info.ExpiresAt, info.CreatedAt.Add(long))
	})

	t.Run("an expiry in the distant past is accepted and has passed", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{ExpiresAt: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)})
		info := w.find(id)
		equal(t, "expires_at is zero", info.ExpiresAt.IsZero(), false)
		w.claimNone()
		equal(t, "id", w.sweepOne(false, later.DoomExpired).ID, id)
	})

	// kept: the store owns what it was given and gives away what it owns not.
	t.Run("what the caller changes afterwards does not reach the store", func(t *testing.T) {
		w := newWorld(t, open)
		args, headers := raw(`{"a":1}`), map[string]string{"trace": "1"}
		id := w.enqueueArgs(args, later.Options{Headers: headers})
		args.Payload[0], headers["trace"] = 'X', "2"
		for range 2 {
			c := w.claimThis(id)
			equal(t, "payload", string(c.Payload), `{"a":1}`)
			equal(t, "header", c.Headers["trace"], "1")
			c.Payload[0], c.Headers["trace"] = 'Y', "3"
			w.settle(end(c, later.OutcomeReleased))
		}
		info := w.find(id)
		info.Payload[0] = 'Z'
		equal(t, "payload found", string(w.find(id).Payload), `{"a":1}`)
	})

	t.Run("a call with a cancelled context changes nothing", func(t *testing.T) {
		w := newWorld(t, open)
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		if _, err := later.NewClient(w.store).Enqueue(ctx, raw(`{}`), later.Options{}); err == nil {
			t.Error("Enqueue: got no error, want one")
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 0)
	})

	testHorizon(t, open)
}

// testHorizon is case 58: run_at far away is exact, and wakes nobody early.
func testHorizon(t *testing.T, open Open) {
	inside := []time.Time{
		time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC), // past 32-bit seconds
		time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC),  // past 64-bit nanoseconds
		time.Date(4864, 8, 30, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}

	// Case 58: exact storage inside the horizon; the list page shows them all.
	t.Run("a run_at up to the horizon is exact and does not run early", func(t *testing.T) {
		w := newWorld(t, open)
		var ids []int64
		for _, at := range inside {
			id := w.enqueue(later.Options{RunAt: at, ExpiresAt: at})
			info := w.state(id, later.StateScheduled)
			if !info.RunAt.Equal(at) || !info.ExpiresAt.Equal(at) {
				t.Errorf("got run_at %v and expires_at %v, want %v", info.RunAt, info.ExpiresAt, at)
			}
			ids = append(ids, id)
		}
		ids = append(ids, w.enqueue(later.Options{Delay: math.MaxInt64, ExpiresIn: math.MaxInt64}))
		w.claimNone()
		w.sweepNone(true)
		slices.Reverse(ids)
		equalSlices(t, "ids listed", listed(w.list(later.Filter{State: later.StateScheduled})), ids)
	})

	// Case 58: the longest delay that Go can express is not an overflow.
	t.Run("the longest delay ends in the year that it should", func(t *testing.T) {
		w := newWorld(t, open)
		info := w.find(w.enqueue(later.Options{Delay: math.MaxInt64}))
		equalTimes(t, "run_at", info.RunAt, info.CreatedAt.Add(math.MaxInt64))
		info = w.find(w.enqueue(later.Options{ExpiresIn: math.MaxInt64}))
		equalTimes(t, "expires_at", info.ExpiresAt, info.CreatedAt.Add(math.MaxInt64))
	})

	// Case 58: outside the horizon there is a typed error, and nothing stored.
	t.Run("a time past the horizon is refused", func(t *testing.T) {
		w := newWorld(t, open)
		for _, opts := range []later.Options{
			{RunAt: later.Horizon},
			{RunAt: later.Horizon.Add(1000 * time.Hour)},
			{ExpiresAt: later.Horizon},
			{Delay: -1},
			{ExpiresIn: -1},
		} {
			_, err := w.client().Enqueue(w.ctx, raw(`{}`), opts)
			isError(t, "Enqueue", err, later.ErrInvalid)
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 0)
	})
}
