package why

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// fakeStore answers what Ask asks.
type fakeStore struct {
	later.Operator
	later.Limiter
	jobs      map[int64]*later.JobInfo
	standings map[later.Scope]later.Standing
	asked     []later.Scope
	fault     map[string]error
}

func (f *fakeStore) Workers(context.Context) ([]later.WorkerInfo, error) {
	return freeWorkers(), f.fault["workers"]
}

func (f *fakeStore) Pauses(context.Context) ([]later.Pause, error) { return nil, f.fault["pauses"] }

func (f *fakeStore) Find(_ context.Context, id int64) (*later.JobInfo, error) {
	if job := f.jobs[id]; job != nil {
		return job, nil
	}
	return nil, fmt.Errorf("find job %d: %w", id, later.ErrNotFound)
}

func (f *fakeStore) Standing(_ context.Context, scope later.Scope) (later.Standing, error) {
	f.asked = append(f.asked, scope)
	return f.standings[scope], f.fault["standing"]
}

func TestAsk(t *testing.T) {
	job := func(id int64, state later.State, due time.Duration) *later.JobInfo {
		j := dueJob()
		j.ID, j.State, j.RunAt = id, state, testNow.Add(due)
		return j
	}
	ask := func(t *testing.T, f *fakeStore, job *later.JobInfo) Reason {
		t.Helper()
		reason, err := Ask(t.Context(), f, f, job)
		if err != nil {
			t.Fatal(err)
		}
		return reason
	}
	t.Run("asks how things stand with the queue, the kind and the tenant of a due job", func(t *testing.T) {
		f := &fakeStore{standings: map[later.Scope]later.Standing{acme: {Limit: capOf(1), Running: []int64{3}}}}
		if got := ask(t, f, dueJob()); got.Code != Full || len(f.asked) != 3 {
			t.Errorf("got %+v after asking %v", got, f.asked)
		}
	})
	t.Run("asks of no tenant where there is none", func(t *testing.T) {
		f := &fakeStore{}
		j := dueJob()
		j.Tenant = ""
		if got := ask(t, f, j); got.Code != Waiting || len(f.asked) != 2 {
			t.Errorf("got %+v after asking %v", got, f.asked)
		}
	})
	t.Run("asks nothing of limits for a job that they do not concern", func(t *testing.T) {
		f := &fakeStore{}
		for _, j := range []*later.JobInfo{job(1, later.StateRunning, 0), job(1, later.StateScheduled, time.Hour), job(1, later.StateEnded, 0)} {
			ask(t, f, j)
		}
		if len(f.asked) != 0 {
			t.Errorf("asked %v, want nothing", f.asked)
		}
	})
	t.Run("needs no limits", func(t *testing.T) {
		f := &fakeStore{}
		if got, err := Ask(t.Context(), f, nil, dueJob()); err != nil || got.Code != Waiting {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("says what the job ahead waits for itself", func(t *testing.T) {
		f := &fakeStore{
			jobs:      map[int64]*later.JobInfo{5: job(5, later.StateReady, -time.Minute)},
			standings: map[later.Scope]later.Standing{acme: {Limit: ordered, Running: []int64{5}}, kindK: {Limit: capOf(1), Running: []int64{3}}},
		}
		f.jobs[5].Tenant = "acme & co"
		got := ask(t, f, dueJob())
		if want := `tenant "acme & co" is ordered, and job 5 comes first: due 1m ago, but kind "k" runs 1 job of at most 1: 3`; !strings.Contains(got.Text, want) {
			t.Errorf("got %q, want %q in it", got.Text, want)
		}
	})
	t.Run("two jobs ahead of each other end the questions", func(t *testing.T) {
		f := &fakeStore{
			jobs:      map[int64]*later.JobInfo{5: job(5, later.StateReady, 0), 6: job(6, later.StateReady, 0)},
			standings: map[later.Scope]later.Standing{acme: {Limit: ordered, Running: []int64{5}}, queueQ: {Limit: ordered, Running: []int64{6}}},
		}
		if got := ask(t, f, dueJob()); got.Code != Behind || strings.Join(got.Jobs, " ") != "6 5" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the job ahead may be gone by now", func(t *testing.T) {
		f := &fakeStore{standings: map[later.Scope]later.Standing{acme: {Limit: ordered, Running: []int64{5}}}}
		if got := ask(t, f, dueJob()); got.Code != Behind {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a dead job that blocks says so", func(t *testing.T) {
		f := &fakeStore{standings: map[later.Scope]later.Standing{acme: {Limit: blocking, Running: []int64{7}}}}
		if got := ask(t, f, job(7, later.StateDead, 0)); !strings.Contains(got.Text, "none of its jobs runs before this one") {
			t.Errorf("got %q", got.Text)
		}
	})
	t.Run("errors come back", func(t *testing.T) {
		for _, name := range []string{"workers", "pauses", "standing"} {
			f := &fakeStore{fault: map[string]error{name: later.ErrUnavailable}}
			if _, err := Ask(t.Context(), f, f, dueJob()); !errors.Is(err, later.ErrUnavailable) {
				t.Errorf("%s: got %v, want ErrUnavailable", name, err)
			}
		}
	})
}
