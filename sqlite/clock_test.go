package sqlite_test

import (
	"math"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

func find(t *testing.T, s *sqlite.Store, id int64) *later.JobInfo {
	t.Helper()
	info, err := s.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestTimes(t *testing.T) {
	// Case 58: inside the horizon times are stored as they are, and nobody wakes
	// early; milliseconds are rounded up.
	t.Run("far away are kept", func(t *testing.T) {
		s := openStore(t, ":memory:", sqlite.Config{})
		for _, at := range []string{
			"2038-01-19T03:14:08Z", "2262-04-12T00:00:00Z", "2300-01-01T00:00:00.123Z", "4864-08-30T00:00:00Z", "9999-12-31T23:59:59.999Z",
		} {
			want, err := time.Parse(time.RFC3339, at)
			if err != nil {
				t.Fatal(err)
			}
			info := find(t, s, enqueue(t, s, later.Options{RunAt: want, ExpiresAt: want}))
			if !info.RunAt.Equal(want) || !info.ExpiresAt.Equal(want) || info.State != later.StateScheduled {
				t.Errorf("%s: got %v, %v, %s", at, info.RunAt, info.ExpiresAt, info.State)
			}
		}
		if got := len(claim(t, s, 9)); got != 0 {
			t.Errorf("claimed %d jobs, want 0", got)
		}
		if _, err := s.List(t.Context(), later.Filter{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("stay inside the horizon", func(t *testing.T) {
		s := openStore(t, ":memory:", sqlite.Config{})
		last := later.Horizon.Add(-time.Nanosecond)
		info := find(t, s, enqueue(t, s, later.Options{RunAt: last, ExpiresAt: last}))
		if want := later.Horizon.Add(-time.Millisecond); !info.RunAt.Equal(want) || !info.ExpiresAt.Equal(want) {
			t.Errorf("got %v, %v, want %v", info.RunAt, info.ExpiresAt, want)
		}
		info = find(t, s, enqueue(t, s, later.Options{Delay: math.MaxInt64, ExpiresIn: math.MaxInt64}))
		if d := info.RunAt.Sub(info.CreatedAt); d < math.MaxInt64-time.Second || !info.ExpiresAt.Equal(info.RunAt) {
			t.Errorf("a delay of %v: run_at %v, expires_at %v", time.Duration(math.MaxInt64), info.RunAt, info.ExpiresAt)
		}
		_, err := s.Enqueue(t.Context(), work, later.Options{RunAt: later.Horizon})
		wantError(t, err, later.ErrInvalid)

		enqueue(t, s, later.Options{})
		settle(t, s, later.Settlement{Lease: claimOne(t, s).Lease, Outcome: later.OutcomeSnoozed, Delay: math.MaxInt64})
	})
	t.Run("before 1970 are kept, and have passed", func(t *testing.T) {
		s := openStore(t, ":memory:", sqlite.Config{})
		long := time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)
		id := enqueue(t, s, later.Options{RunAt: long, ExpiresAt: long})
		info := find(t, s, id)
		if !info.RunAt.Equal(info.CreatedAt) || !info.ExpiresAt.Equal(long.Truncate(time.Millisecond).Add(time.Millisecond)) {
			t.Errorf("run_at %v, expires_at %v", info.RunAt, info.ExpiresAt)
		}
		swept, err := s.Sweep(t.Context(), later.SweepRequest{Limit: 5, Worker: "w", Token: later.NewToken(), Lease: time.Hour})
		if err != nil || len(swept) != 1 || swept[0].Doom != later.DoomExpired {
			t.Errorf("swept %v, %v, want the expired job", swept, err)
		}
	})

	// Case 55: an enqueuer's clock that is behind trips nothing.
	t.Run("that have passed are stored as now", func(t *testing.T) {
		s := openStore(t, ":memory:", sqlite.Config{})
		info := find(t, s, enqueue(t, s, later.Options{RunAt: time.Now().Add(-5 * time.Minute)}))
		if !info.RunAt.Equal(info.CreatedAt) || info.State != later.StateReady {
			t.Errorf("run_at %v, created_at %v, state %s", info.RunAt, info.CreatedAt, info.State)
		}
	})

	// Case 61: zones are for people.
	t.Run("are the same instants in every zone", func(t *testing.T) {
		s := openStore(t, ":memory:", sqlite.Config{})
		at := time.Date(2100, 1, 1, 10, 0, 0, 0, time.UTC)
		kolkata := time.FixedZone("IST", 5*3600+1800)
		a := find(t, s, enqueue(t, s, later.Options{RunAt: at})).RunAt
		b := find(t, s, enqueue(t, s, later.Options{RunAt: at.In(kolkata)})).RunAt
		if !a.Equal(at) || !b.Equal(at) || a.Location() != time.UTC {
			t.Errorf("got %v and %v, want %v", a, b, at)
		}
	})

	t.Run("are rounded up to milliseconds", func(t *testing.T) {
		s := openStore(t, ":memory:", sqlite.Config{})
		at := time.Date(2100, 1, 1, 0, 0, 0, 1, time.UTC)
		if got, want := find(t, s, enqueue(t, s, later.Options{RunAt: at})).RunAt, at.Add(time.Millisecond-1); !got.Equal(want) {
			t.Errorf("run_at %v, want %v", got, want)
		}
		info := find(t, s, enqueue(t, s, later.Options{Delay: 1, ExpiresIn: 1500 * time.Microsecond}))
		if got := info.RunAt.Sub(info.CreatedAt); got != time.Millisecond {
			t.Errorf("delay %v, want 1ms", got)
		}
		if got := info.ExpiresAt.Sub(info.CreatedAt); got != 2*time.Millisecond {
			t.Errorf("expiry %v, want 2ms", got)
		}
		enqueue(t, s, later.Options{Priority: -1})
		req := request(1)
		req.Lease = 1500 * time.Microsecond
		if _, err := s.Claim(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := one[int](t, s.DB(), `select lease_until - claimed_at from later_job where priority = -1`); got != 2 {
			t.Errorf("a lease of 1.5 ms is %d ms, want 2", got)
		}
	})
}

// Ids are never given twice, not even after the newest job has gone and the file
// was opened again.
func TestIDs(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, sqlite.Config{})
	first := enqueue(t, s, later.Options{})
	newest := enqueue(t, s, later.Options{})
	if err := s.Delete(t.Context(), newest); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = openStore(t, path, sqlite.Config{})
	if got := enqueue(t, s, later.Options{}); got <= newest {
		t.Errorf("id %d after %d was deleted", got, newest)
	}

	// Case 67: a job that comes back from the dead has its id, and a lease that
	// no earlier claim had.
	c := claimOne(t, s)
	if c.ID != first {
		t.Fatalf("claimed %d, want %d", c.ID, first)
	}
	settle(t, s, later.Settlement{Lease: c.Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed})
	if err := s.Retry(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	mustExec(t, s.DB(), `delete from later_job where id <> ?`, first)
	again := claimOne(t, s)
	if again.ID != first || again.Lease.Token == c.Lease.Token || again.Generation != 1 {
		t.Errorf("got %+v, want the id %d, generation 1 and another token than %d", again.Record, first, c.Lease.Token)
	}
	refused, err := s.Settle(t.Context(), []later.Settlement{{Lease: c.Lease, Outcome: later.OutcomeDone}})
	if err != nil || len(refused) != 1 {
		t.Errorf("the old lease: refused %v, %v, want it refused", refused, err)
	}
}

// Cases 5 and 8: the bytes that were enqueued come back, through retry, death
// and revival.
func TestPayloadBytes(t *testing.T) {
	s := openStore(t, tempFile(t), sqlite.Config{})
	for _, payload := range []string{
		`{"id":9223372036854775807,"b":9007199254740993,"c":1.10}`, `{"bb":1,"a":2}`, `{"a":1,"a":2}`, " { \"a\" :\t1 }\n", `9223372036854775808`, `"😀\ud83d\ude00"`,
	} {
		done, err := s.Enqueue(t.Context(), later.RawArgs{JobKind: "work", Payload: []byte(payload)}, later.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, outcome := range []later.Outcome{later.OutcomeRetry, later.OutcomeDead, later.OutcomeDone} {
			c := claimOne(t, s)
			if got := string(c.Payload); got != payload {
				t.Errorf("before %s: payload %s, want %s", outcome, got, payload)
			}
			settle(t, s, later.Settlement{Lease: c.Lease, Outcome: outcome, Reason: later.DeadFailed})
			if outcome == later.OutcomeDead {
				if got := string(find(t, s, done.ID).Payload); got != payload {
					t.Errorf("dead: payload %s, want %s", got, payload)
				}
				if err := s.Retry(t.Context(), done.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Case 98: retention counts from an attempt's end, and concerns nothing that has
// not ended.
func TestRetention(t *testing.T) {
	s := openStore(t, tempFile(t), sqlite.Config{LogRetention: 24 * time.Hour})
	for range 2 {
		enqueue(t, s, later.Options{})
	}
	settle(t, s, later.Settlement{Lease: claimOne(t, s).Lease, Outcome: later.OutcomeDead, Reason: later.DeadFailed})
	mustExec(t, s.DB(), `update later_dead_job set died_at = 0`)
	mustExec(t, s.DB(), `update later_job set run_at = 0, created_at = 0`)
	enqueue(t, s, later.Options{Delay: 30 * 24 * time.Hour})
	mustExec(t, s.DB(), `
with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500)
insert into later_job_log (id, job_id, attempt, queue, kind, tenant, outcome, finished_at)
select i - 5000, i, 1, 'default', 'work', '', 'done', i from n`)
	if err := s.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		`select count(*) from later_job_log`: 1, `select count(*) from later_job`: 2, `select count(*) from later_dead_job`: 1,
	} {
		if got := one[int](t, s.DB(), query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}
