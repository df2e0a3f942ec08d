package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// Hand is how a person, or a program without a client library, changes the
// tables of a store.
type Hand struct {
	// Job and DeadJob are the tables' names as SQL has them.
	Job, DeadJob string
	// Exec runs a statement of standard SQL on a connection of its own.
	Exec func(ctx context.Context, statement string) error
}

// RunByHand runs the part of the contract that is about rows which people write
// in SQL: a plain insert is an enqueue, nonsense is refused by the table itself,
// and an odd row that the table does accept harms nobody else.
func RunByHand(t *testing.T, open func(t *testing.T) (later.Store, Hand)) {
	start := func(t *testing.T) *handWorld {
		t.Helper()
		store, hand := open(t)
		return &handWorld{world: newWorld(t, func(*testing.T) later.Store { return store }), hand: hand}
	}
	t.Run("insert", func(t *testing.T) { testInsertByHand(t, start) })
	t.Run("odd rows", func(t *testing.T) { testOddRows(t, start) })
}

// handWorld is a world with somebody at the SQL prompt.
type handWorld struct {
	*world
	hand Hand
}

// try runs a statement, in which {job} and {dead_job} are the tables, and
// reports whether the table accepted it.
func (w *handWorld) try(format string, args ...any) bool {
	w.t.Helper()
	statement := strings.NewReplacer("{job}", w.hand.Job, "{dead_job}", w.hand.DeadJob).Replace(fmt.Sprintf(format, args...))
	return w.hand.Exec(w.ctx, statement) == nil
}

// do is try with a statement that must be accepted.
func (w *handWorld) do(format string, args ...any) {
	w.t.Helper()
	if !w.try(format, args...) {
		w.t.Fatalf("refused: "+format, args...)
	}
}

// quote is a text as an SQL literal.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func testInsertByHand(t *testing.T, start func(t *testing.T) *handWorld) {
	t.Run("a plain insert of kind and payload is an enqueue with the defaults", func(t *testing.T) {
		w := start(t)
		w.do(`insert into {job} (kind, payload) values ('work', '{"order_id": 42}')`)
		info := w.list(later.Filter{})[0]
		between(t, "run_at", info.RunAt, info.CreatedAt, info.Now)
		want := later.Record{
			ID: info.ID, Queue: later.DefaultQueue, Kind: kind, Payload: []byte(`{"order_id": 42}`), RunAt: info.RunAt,
			MaxAttempts: later.DefaultMaxAttempts, Timeout: later.DefaultTimeout, CreatedAt: info.CreatedAt,
		}
		sameRecord(t, "listed", info.Record, want)
		want.Attempt = 1
		sameRecord(t, "claimed", w.claimOne().Record, want)
	})

	// exact. Cases 1, 5 and 8, without a library in between.
	t.Run("a payload that was written by hand is kept byte for byte", func(t *testing.T) {
		for _, p := range keptPayloads {
			t.Run(p.name, func(t *testing.T) {
				w := start(t)
				w.do(`insert into {job} (kind, payload) values ('work', %s)`, quote(p.payload))
				equal(t, "payload", string(w.claimOne().Payload), p.payload)
			})
		}
	})

	// Cases 1, 7, 11, 14 and 127: the table refuses what no worker could read.
	t.Run("a row that is nonsense is refused by the table", func(t *testing.T) {
		w := start(t)
		for _, payload := range []string{
			``, `{"a":`, `hello`, `{} {}`, `{"s":"a\u0000b"}`, `{"a\u0000b":1}`, `{"l":[{"s":"\\\u0000"}]}`,
		} {
			if w.try(`insert into {job} (kind, payload) values ('work', %s)`, quote(payload)) {
				t.Errorf("the payload %s was accepted", payload)
			}
		}
		for _, row := range []struct{ column, value string }{
			{"kind", `''`}, {"kind", `null`}, {"queue", `''`}, {"queue", `null`}, {"tenant", `null`}, {"payload", `null`},
			{"run_at", `null`}, {"priority", `null`}, {"priority", `40000`}, {"attempt", `-1`}, {"attempt", `null`},
			{"max_attempts", `0`}, {"max_attempts", `null`}, {"max_attempts", `2147483648`},
			{"timeout_ms", `0`}, {"timeout_ms", `-5`}, {"timeout_ms", `null`}, {"crashes", `-1`}, {"crashes", `null`},
			{"headers", `'{"a":'`}, {"kind", quote(strings.Repeat("n", later.MaxNameBytes+1))},
			{"queue", quote(strings.Repeat("n", later.MaxNameBytes+1))},
		} {
			columns, values := map[string]string{"kind": `'work'`, "payload": `'{}'`}, ""
			columns[row.column] = row.value
			names := ""
			for name, value := range columns {
				names, values = names+", "+name, values+", "+value
			}
			if w.try(`insert into {job} (%s) values (%s)`, names[2:], values[2:]) {
				t.Errorf("the %s %s was accepted", row.column, row.value)
			}
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 0)
	})

	t.Run("a job that was moved to another queue by hand is claimed there", func(t *testing.T) {
		w := start(t)
		id := w.enqueue(later.Options{})
		w.do(`update {job} set queue = 'mail', priority = 5 where id = %d`, id)
		w.claimNone()
		equal(t, "priority", w.claimThis(id).Priority, 5)
	})
}

func testOddRows(t *testing.T, start func(t *testing.T) *handWorld) {
	// found, counted. Cases 85 and 89: one count at its end stops nobody.
	t.Run("a job whose attempt is the largest number is claimed with the others", func(t *testing.T) {
		w := start(t)
		ids := w.enqueueMany(3, raw(`{}`), later.Options{MaxAttempts: later.UnlimitedAttempts})
		w.do(`update {job} set attempt = 2147483647 where id = %d`, ids[1])
		jobs := w.claim(3)
		equalSlices(t, "ids", idsOf(jobs), ids)
		equal(t, "attempt", jobs[1].Attempt, math.MaxInt32)
		w.settle(end(jobs[0], later.OutcomeDone), end(jobs[1], later.OutcomeRetry), end(jobs[2], later.OutcomeDone))
		c := w.claimOne()
		equal(t, "next attempt", c.Attempt, math.MaxInt32)
		w.settle(end(c, later.OutcomeDead))
		equal(t, "attempt of the dead", w.state(c.ID, later.StateDead).Attempt, math.MaxInt32)
	})

	// found. Case 73: a row that says that it runs, but not for whom.
	t.Run("a lease without a holder ends like any other", func(t *testing.T) {
		for _, columns := range []string{"lease_holder", "lease_token", "claimed_at", "lease_holder = null, lease_token = null, claimed_at"} {
			t.Run(columns, func(t *testing.T) {
				w := start(t)
				id := w.enqueue(later.Options{})
				c := w.claimOne()
				if !w.try(`update {job} set %s = null where id = %d`, columns, id) {
					return // the table has no such rows: as good
				}
				w.state(id, later.StateRunning)
				w.claimNone()
				w.do(`update {job} set lease_until = created_at where id = %d`, id)
				w.eventually("the lease has ended", func() bool { return w.find(id).State == later.StateLost })
				next := w.claimOne()
				equal(t, "crashes", next.Crashes, 1)
				w.refusesAll(c, "another has it")
				w.settle(end(next, later.OutcomeDone))
			})
		}
	})

	// shown, found. Cases 11 and 232: one odd row stops neither the claim, nor
	// the sweep, the housekeeping or the list; and it ends like any job.
	odd := []struct{ column, value string }{
		{"errors", `'"once a text"'`}, {"errors", `'[]'`}, {"errors", `'[1]'`}, {"errors", `'{}'`}, {"errors", `'null'`},
		{"errors", `'[{"attempt":"one","at":"yesterday"}]'`}, {"errors", `'[{"message":"of another shape"}]'`},
		{"headers", `'[]'`}, {"headers", `'{}'`}, {"headers", `'"x"'`}, {"headers", `'{"a":1,"b":null}'`}, {"headers", `'null'`},
		{"checkpoint", `'null'`}, {"checkpoint", `'"text"'`}, {"checkpoint", `'[[[1e3]]]'`},
		{"generation", `-1`}, {"crashes", `1000000`}, {"priority", `-32768`},
		{"kind", `'of no handler, "quoted"'`}, {"queue", `'q''; drop table x; --'`}, {"tenant", `' odd '`},
	}
	for _, o := range odd {
		t.Run("a job whose "+o.column+" is "+o.value+" harms no other", func(t *testing.T) {
			w := start(t)
			id := w.enqueue(later.Options{})
			if !w.try(`update {job} set %s = %s where id = %d`, o.column, o.value, id) {
				return // refused by the table: as good
			}
			w.enqueueMany(10, raw(`{"good":true}`), later.Options{})
			expired := w.expired(later.Options{})
			w.looksAround(12)

			swept := map[int64]bool{}
			for _, c := range w.sweepWith(seek(10, false)) {
				swept[c.ID] = true
				w.settle(end(c, later.OutcomeDead))
			}
			equal(t, "the expired job was swept", swept[expired], true)
			if !swept[id] {
				c := w.claimThis(id)
				w.settle(end(c, later.OutcomeRetry))
				w.settle(end(w.claimThis(id), later.OutcomeDead))
			}
			w.looksAround(12)
			for _, c := range w.claim(10) {
				w.settle(end(c, later.OutcomeDone))
			}
			w.maintain()
			if n, err := w.store.RetryDead(w.ctx, later.Filter{}); n != 2 || err != nil {
				t.Errorf("RetryDead: got %d, %v, want 2", n, err)
			}
			w.settle(end(w.claimThis(id), later.OutcomeDone))
			w.gone(id)
		})
	}

	// shown. Case 232: dead rows of an odd shape.
	t.Run("a dead job of an odd shape is listed, retried and dropped", func(t *testing.T) {
		for _, o := range odd {
			t.Run(o.column+" "+o.value, func(t *testing.T) {
				w := start(t)
				id := w.die(raw(`{}`), later.Options{}, later.DeadFailed, "it failed")
				other := w.die(raw(`{}`), later.Options{}, later.DeadFailed, "it failed")
				if !w.try(`update {dead_job} set %s = %s where id = %d`, o.column, o.value, id) {
					return // refused by the table: as good
				}
				w.looksAround(2)
				w.list(later.Filter{ErrorLike: "failed"})
				w.maintain()
				if n, err := w.store.RetryDead(w.ctx, later.Filter{}); n < 1 || err != nil {
					t.Fatalf("RetryDead: got %d, %v, want the odd one to keep none back", n, err)
				}
				w.state(other, later.StateReady)
				if w.find(id).State == later.StateDead { // not to be retried as it is
					if n, err := w.store.DropDead(w.ctx, later.Filter{}); n != 1 || err != nil {
						t.Errorf("DropDead: got %d, %v, want 1", n, err)
					}
				} else {
					w.cancel(id, false)
				}
				w.gone(id)
			})
		}
	})
}

// looksAround looks at everything that people look at; there are n jobs.
func (w *handWorld) looksAround(n int) {
	w.t.Helper()
	infos := w.list(later.Filter{})
	equal(w.t, "jobs listed", len(infos), n)
	for _, info := range infos {
		equal(w.t, "id found", w.find(info.ID).ID, info.ID)
	}
	total := int64(0)
	for _, row := range w.status() {
		total += row.Count
	}
	equal(w.t, "jobs counted", total, int64(n))
}
