package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// unique enqueues a job with a payload and a Unique.
func (w *world) unique(payload string, u later.Unique, opts later.Options) later.Enqueued {
	w.t.Helper()
	opts.Unique = &u
	done, err := w.client().Enqueue(w.ctx, raw(payload), opts)
	if err != nil {
		w.t.Fatalf("Enqueue: %v", err)
	}
	return done
}

// takes is unique for a key that must be free.
func (w *world) takes(u later.Unique, opts later.Options) int64 {
	w.t.Helper()
	done := w.unique(`{}`, u, opts)
	if done != (later.Enqueued{ID: done.ID}) {
		w.t.Fatalf("got %+v, want a new job", done)
	}
	return done.ID
}

// skips is unique for a key that job id must hold.
func (w *world) skips(id int64, u later.Unique, opts later.Options) {
	w.t.Helper()
	if done := w.unique(`{}`, u, opts); done.ID != id || done.Outcome != later.Skipped {
		w.t.Fatalf("got %+v, want it skipped because of job %d", done, id)
	}
}

func testUnique(t *testing.T, open Open) {
	// shown. Case 112.
	t.Run("a job shows its key until it has given it up", func(t *testing.T) {
		w := newWorld(t, open)
		shows := func(id int64, key string, until later.Until) {
			t.Helper()
			for _, info := range []*later.JobInfo{w.find(id), w.list(later.Filter{IDs: []int64{id}})[0]} {
				equal(t, "key", info.UniqueKey, key)
				equal(t, "until", info.UniqueUntil, until)
			}
		}
		plain := w.enqueue(later.Options{})
		done := w.takes(later.Unique{Key: "a"}, later.Options{})
		started := w.takes(later.Unique{Key: "b", Until: later.UntilStarted}, later.Options{})
		shows(plain, "", later.UntilDone)
		shows(done, "a", later.UntilDone)
		shows(started, "b", later.UntilStarted)
		w.settle(end(w.claimThis(done), later.OutcomeDead))
		w.settle(end(w.claimThis(started), later.OutcomeDead))
		shows(done, "a", later.UntilDone)
		shows(started, "", later.UntilDone)
		w.retry(done)
		shows(done, "a", later.UntilDone)
	})

	// Case 121: at most one, and the rest is dropped.
	t.Run("while a job runs, each further request is told so, and none waits", func(t *testing.T) {
		w := newWorld(t, open)
		u := later.Unique{Key: "k"}
		id := w.takes(u, later.Options{})
		running := w.claimThis(id)
		for range 5 {
			w.skips(id, u, later.Options{})
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 1)
		w.endAs(later.OutcomeDone, running)
		w.takes(u, later.Options{})
	})

	// Case 113: no tenant is one tenant.
	t.Run("a key is one among the jobs of a tenant and a kind, whatever the queue", func(t *testing.T) {
		w := newWorld(t, open)
		u := later.Unique{Key: "k"}
		none := w.takes(u, later.Options{})
		w.skips(none, u, later.Options{})
		w.skips(none, u, later.Options{Queue: "other", Priority: 3})
		acme := w.takes(u, later.Options{Tenant: "acme"})
		w.skips(acme, u, later.Options{Tenant: "acme"})
		w.takes(u, later.Options{Tenant: "ACME"})
		w.takes(later.Unique{Key: "K"}, later.Options{})
		done, err := w.client().Enqueue(w.ctx, later.RawArgs{JobKind: "other", Payload: []byte(`{}`)}, later.Options{Unique: &u})
		if err != nil || done.Outcome != later.Inserted {
			t.Errorf("another kind: got %+v, %v, want a new job", done, err)
		}
	})

	t.Run("whatever Build accepts as a key is one, and no two are the same", func(t *testing.T) {
		w := newWorld(t, open)
		keys := []string{
			" ", "a", "A", "a ", " a", "é", "e\u0301", "\u00a0", "\u200b", "\ufeff", "\u202e", "😀", `'`, `"`, `\`, `\\`, `%`, `_`, `$1`, `{}`, `null`, `NULL`,
			`a,b`, `{a,b}`, `[1,"a"]`, "\U0010ffff", strings.Repeat("é", later.MaxKeyBytes/2), strings.Repeat("k", later.MaxKeyBytes),
			strings.Repeat("k", later.MaxKeyBytes-1),
		}
		for _, hold := range holds {
			ids := map[string]int64{}
			for _, key := range keys {
				u := hold.unique
				u.Key = key
				ids[key] = w.takes(u, later.Options{Tenant: hold.name})
			}
			for _, key := range keys {
				u := hold.unique
				u.Key = key
				w.skips(ids[key], u, later.Options{Tenant: hold.name})
			}
		}
	})

	// Case 209, and exact: no option is lost on this way into the store.
	t.Run("a job with a key keeps its payload and every option", func(t *testing.T) {
		w := newWorld(t, open)
		for i, o := range oneOption {
			id := w.takes(later.Unique{Key: fmt.Sprint("o", i)}, o.opts)
			w.keepsOption(id, o.change)
		}
		for i, p := range keptPayloads {
			done := w.unique(p.payload, later.Unique{Key: fmt.Sprint("p", i)}, later.Options{})
			equal(t, "payload", string(w.find(done.ID).Payload), p.payload)
			done = w.unique(p.payload, later.Unique{Key: "replaced", OnConflict: later.Replace}, later.Options{})
			equal(t, "payload that was replaced", string(w.find(done.ID).Payload), p.payload)
		}
	})

	t.Run("of several requests in one call the later ones meet the first", func(t *testing.T) {
		w := newWorld(t, open)
		replace := func(key string) later.Options {
			return later.Options{Unique: &later.Unique{Key: key, OnConflict: later.Replace}}
		}
		done, err := w.client().EnqueueMany(w.ctx, []later.Request{
			{Args: raw(`1`), Options: replace("z")}, {Args: raw(`2`)}, {Args: raw(`3`), Options: replace("a")},
			{Args: raw(`4`), Options: replace("z")}, {Args: raw(`5`)}, {Args: raw(`6`), Options: replace("z")},
		})
		if err != nil {
			t.Fatal(err)
		}
		z := done[0].ID
		want := []later.Enqueued{
			{ID: z}, {ID: done[1].ID}, {ID: done[2].ID},
			{ID: z, Outcome: later.Replaced, Holder: later.StateReady}, {ID: done[4].ID}, {ID: z, Outcome: later.Replaced, Holder: later.StateReady},
		}
		equalSlices(t, "results", done, want)
		for id, payload := range map[int64]string{z: `6`, done[1].ID: `2`, done[2].ID: `3`, done[4].ID: `5`} {
			equal(t, "payload", string(w.find(id).Payload), payload)
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 4)
	})

	// kept: the store owns what it was given.
	t.Run("what the caller changes after a replacement does not reach the store", func(t *testing.T) {
		w := newWorld(t, open)
		u := later.Unique{Key: "k", OnConflict: later.Replace}
		id := w.takes(u, later.Options{})
		args, headers := raw(`{"a":1}`), map[string]string{"trace": "1"}
		if _, err := w.client().Enqueue(w.ctx, args, later.Options{Unique: &u, Headers: headers}); err != nil {
			t.Fatal(err)
		}
		args.Payload[0], headers["trace"] = 'X', "2"
		info := w.find(id)
		equal(t, "payload", string(info.Payload), `{"a":1}`)
		equal(t, "header", info.Headers["trace"], "1")
	})

	// Case 115.
	t.Run("duplicates cost no ids", func(t *testing.T) {
		w := newWorld(t, open)
		for _, hold := range holds {
			u := hold.unique
			u.Key = "k"
			first := w.takes(u, later.Options{Tenant: hold.name})
			for range 100 {
				w.skips(first, u, later.Options{Tenant: hold.name})
			}
			equal(t, "ids taken "+hold.name, w.enqueue(later.Options{})-first, 1)
		}
	})

	testPostpone(t, open)
	testUniqueDead(t, open)
	testWindows(t, open)
}

func testPostpone(t *testing.T, open Open) {
	// A debounce: each request puts the job off, until it has waited long enough.
	t.Run("a job is put off to the request's time, never back, and not beyond the latest", func(t *testing.T) {
		w := newWorld(t, open)
		u := later.Unique{Key: "k", OnConflict: later.Postpone, Latest: 10 * time.Hour}
		id := w.takes(u, later.Options{Delay: 5 * time.Hour})
		created := w.find(id).CreatedAt
		for _, step := range []struct {
			delay, want time.Duration
			outcome     later.EnqueueOutcome
		}{
			{time.Hour, 5 * time.Hour, later.Skipped},
			{6 * time.Hour, 6 * time.Hour, later.Postponed},
			{6*time.Hour - time.Minute, 6 * time.Hour, later.Skipped},
			{20 * time.Hour, 10 * time.Hour, later.Postponed},
			{20 * time.Hour, 10 * time.Hour, later.Skipped},
		} {
			done := w.unique(`{}`, u, later.Options{Delay: step.delay})
			equal(t, fmt.Sprintf("result of %v", step.delay), done, later.Enqueued{ID: id, Outcome: step.outcome, Holder: later.StateScheduled})
			between(t, "run_at", w.find(id).RunAt, created.Add(step.want), created.Add(step.want+patience))
		}
		u.OnConflict = later.ReplaceAndPostpone
		done := w.unique(`{"new":1}`, u, later.Options{Delay: time.Hour})
		equal(t, "result of both", done, later.Enqueued{ID: id, Outcome: later.Replaced, Holder: later.StateScheduled})
		u.Latest = 30 * time.Hour
		done = w.unique(`{"new":2}`, u, later.Options{RunAt: created.Add(12 * time.Hour)})
		equal(t, "result of both", done, later.Enqueued{ID: id, Outcome: later.ReplacedAndPostponed, Holder: later.StateScheduled})
		info := w.find(id)
		equalTimes(t, "run_at", info.RunAt, created.Add(12*time.Hour))
		equal(t, "payload", string(info.Payload), `{"new":2}`)
	})

	t.Run("a job that was put off is claimed when it is due, and not before", func(t *testing.T) {
		w := newWorld(t, open)
		u := later.Unique{Key: "k", OnConflict: later.ReplaceAndPostpone, Latest: 50 * time.Millisecond}
		id := w.takes(u, later.Options{})
		done := w.unique(`{"new":1}`, u, later.Options{Delay: long})
		equal(t, "outcome", done.Outcome, later.ReplacedAndPostponed)
		info := w.find(id)
		equalTimes(t, "run_at", info.RunAt, info.CreatedAt.Add(50*time.Millisecond))
		c := w.claimThis(id)
		equal(t, "payload", string(c.Payload), `{"new":1}`)
		if c.Now.Before(info.RunAt) {
			t.Errorf("claimed at %v, before %v", c.Now, info.RunAt)
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 1)
	})

	t.Run("what waits for a retry keeps its attempts and errors when it is replaced and put off", func(t *testing.T) {
		w := newWorld(t, open)
		u := later.Unique{Key: "k", OnConflict: later.ReplaceAndPostpone, Latest: 10 * time.Hour}
		id := w.takes(u, later.Options{})
		failed := end(w.claimThis(id), later.OutcomeRetry)
		failed.Delay = time.Minute
		w.settle(failed)
		before := w.find(id)
		w.unique(`{"new":1}`, u, later.Options{Delay: long})
		after := w.find(id)
		before.Payload, before.RunAt = after.Payload, after.RunAt
		sameInfo(t, "job", after, before)
		equal(t, "payload", string(after.Payload), `{"new":1}`)
		equal(t, "failures", after.Failures, 1)
		w.retry(id)
		c := w.claimThis(id)
		equal(t, "attempt", c.Attempt, 2)
		equal(t, "idempotency key", c.IdempotencyKey(), before.IdempotencyKey())
	})
}

func testUniqueDead(t *testing.T, open Open) {
	held := func(t *testing.T, err error, want later.KeyHeldError) {
		t.Helper()
		var got *later.KeyHeldError
		if !errors.As(err, &got) || *got != want || !errors.Is(err, later.ErrKeyHeld) {
			t.Errorf("got %v, want %v", err, &want)
		}
	}

	// kept: a dead job waits for a person, and is not lost to a key.
	t.Run("a dead job does not come back while another holds its key", func(t *testing.T) {
		w := newWorld(t, open)
		u := later.Unique{Key: "k"}
		dead := w.takes(u, later.Options{})
		w.settle(end(w.claimThis(dead), later.OutcomeDead))
		before := w.find(dead)
		holder := w.takes(u, later.Options{})
		held(t, w.store.Retry(w.ctx, dead), later.KeyHeldError{Job: dead, Key: "k", Holder: holder, Count: 1})
		sameInfo(t, "dead job", w.find(dead), before)
		w.settle(end(w.claimThis(holder), later.OutcomeDone))
		w.retry(dead)
		w.skips(dead, u, later.Options{})
		c := w.claimThis(dead)
		equal(t, "generation", c.Generation, 1)
		w.skips(dead, u, later.Options{})
		w.settle(end(c, later.OutcomeDone))
		w.takes(u, later.Options{})
	})

	t.Run("many dead jobs come back but for those whose keys are held, which are counted", func(t *testing.T) {
		w := newWorld(t, open)
		die := func(key string) int64 {
			t.Helper()
			var id int64
			if key == "" {
				id = w.enqueue(later.Options{})
			} else {
				id = w.takes(later.Unique{Key: key}, later.Options{})
			}
			w.settle(end(w.claimThis(id), later.OutcomeDead))
			return id
		}
		a, b1, c, b2, plain := die("a"), die("b"), die("c"), die("b"), die("")
		holder := w.takes(later.Unique{Key: "a"}, later.Options{})
		retry := func(limit, want int) error {
			t.Helper()
			n, err := w.store.RetryDead(w.ctx, later.Filter{Limit: limit})
			equal(t, "brought back", n, want)
			return err
		}
		for want := range 2 { // b1, c: a does not count
			if err := retry(1, 1); err != nil {
				t.Fatalf("RetryDead %d: %v", want, err)
			}
		}
		w.state(b1, later.StateReady)
		w.state(c, later.StateReady)
		if err := retry(10, 1); err != nil {
			t.Fatalf("RetryDead: %v", err)
		}
		w.state(plain, later.StateReady)
		held(t, retry(10, 0), later.KeyHeldError{Job: a, Key: "a", Holder: holder, Count: 2})
		w.state(a, later.StateDead)
		w.state(b2, later.StateDead)
		if n, err := w.store.DropDead(w.ctx, later.Filter{}); n != 2 || err != nil {
			t.Errorf("DropDead: got %d, %v, want 2", n, err)
		}
		if err := retry(10, 0); err != nil {
			t.Errorf("RetryDead of none: %v", err)
		}
	})

	t.Run("of two dead jobs with one key one comes back", func(t *testing.T) {
		w := newWorld(t, open)
		var ids []int64
		for range 2 {
			ids = append(ids, w.takes(later.Unique{Key: "k"}, later.Options{}))
			w.settle(end(w.claimThis(ids[len(ids)-1]), later.OutcomeDead))
		}
		n, err := w.store.RetryDead(w.ctx, later.Filter{})
		if n != 1 || err != nil {
			t.Errorf("RetryDead: got %d, %v, want 1", n, err)
		}
		w.state(ids[0], later.StateReady)
		held(t, w.store.Retry(w.ctx, ids[1]), later.KeyHeldError{Job: ids[1], Key: "k", Holder: ids[0], Count: 1})
	})
}

func testWindows(t *testing.T, open Open) {
	for _, sliding := range []bool{false, true} {
		// Case 116.
		t.Run(fmt.Sprintf("when a window has ended the key is free, sliding %v", sliding), func(t *testing.T) {
			w := newWorld(t, open)
			u := later.Unique{Key: "k", Until: later.ForWindow, Window: 20 * time.Millisecond, Sliding: sliding}
			first := w.takes(u, later.Options{})
			var next later.Enqueued
			w.eventually("the window has ended", func() bool {
				next = w.unique(`{}`, u, later.Options{})
				return next.Outcome == later.Inserted
			})
			a, b := w.find(first), w.find(next.ID)
			if apart := b.CreatedAt.Sub(a.CreatedAt); sliding && apart < u.Window-clockStep {
				t.Errorf("the jobs are %v apart, want at least %v", apart, u.Window)
			}
		})
	}

	t.Run("keys of windows and of jobs do not meet", func(t *testing.T) {
		w := newWorld(t, open)
		w.takes(later.Unique{Key: "k"}, later.Options{})
		w.takes(later.Unique{Key: "k", Until: later.ForWindow, Window: long}, later.Options{})
	})

	// Case 98: housekeeping is about windows that have ended.
	t.Run("housekeeping leaves keys that are held", func(t *testing.T) {
		w := newWorld(t, open)
		for _, hold := range holds {
			u := hold.unique
			u.Key = "k"
			id := w.takes(u, later.Options{Tenant: hold.name})
			w.maintain()
			w.skips(id, u, later.Options{Tenant: hold.name})
		}
	})
}
