package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/later-queue/later"
)

// clockStep is the coarsest clock that a store may have: SQLite keeps whole
// milliseconds, and rounds.
const clockStep = time.Millisecond

// failer is what the suite needs of a test: a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// equal fails unless got is want.
func equal[T comparable](t failer, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func equalSlices[T comparable](t failer, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// equalTimes fails unless got is want up to one step of the store's clock.
func equalTimes(t failer, what string, got, want time.Time) {
	t.Helper()
	if !sameTime(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func sameTime(a, b time.Time) bool { return a.Sub(b).Abs() <= clockStep }

// between fails unless from ≤ got ≤ to.
func between(t failer, what string, got, from, to time.Time) {
	t.Helper()
	if got.Before(from.Add(-clockStep)) || got.After(to.Add(clockStep)) {
		t.Errorf("%s: got %v, want it from %v to %v", what, got, from, to)
	}
}

// isError fails unless err matches want.
func isError(t failer, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got the error %v, want one that matches %q", what, err, want)
	}
}

// sameRecord fails with every field in which got differs from want.
func sameRecord(t failer, what string, got, want later.Record) {
	t.Helper()
	if diff := diffRecords(got, want); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func diffRecords(got, want later.Record) string {
	var diffs []string
	check := func(field string, same bool, got, want any) {
		if !same {
			diffs = append(diffs, fmt.Sprintf("%s: got %v, want %v", field, got, want))
		}
	}
	check("id", got.ID == want.ID, got.ID, want.ID)
	check("queue", got.Queue == want.Queue, got.Queue, want.Queue)
	check("priority", got.Priority == want.Priority, got.Priority, want.Priority)
	check("tenant", got.Tenant == want.Tenant, got.Tenant, want.Tenant)
	check("kind", got.Kind == want.Kind, got.Kind, want.Kind)
	check("payload", string(got.Payload) == string(want.Payload), clip(got.Payload), clip(want.Payload))
	check("run_at", sameTime(got.RunAt, want.RunAt), got.RunAt, want.RunAt)
	check("attempt", got.Attempt == want.Attempt, got.Attempt, want.Attempt)
	check("max attempts", got.MaxAttempts == want.MaxAttempts, got.MaxAttempts, want.MaxAttempts)
	check("timeout", got.Timeout == want.Timeout, got.Timeout, want.Timeout)
	check("expires_at", got.ExpiresAt.IsZero() == want.ExpiresAt.IsZero() && sameTime(got.ExpiresAt, want.ExpiresAt), got.ExpiresAt, want.ExpiresAt)
	check("headers", maps.Equal(got.Headers, want.Headers), got.Headers, want.Headers)
	check("created_at", sameTime(got.CreatedAt, want.CreatedAt), got.CreatedAt, want.CreatedAt)
	check("failures", got.Failures == want.Failures, got.Failures, want.Failures)
	check("crashes", got.Crashes == want.Crashes, got.Crashes, want.Crashes)
	check("generation", got.Generation == want.Generation, got.Generation, want.Generation)
	check("errors", slices.EqualFunc(got.Errors, want.Errors, sameAttemptError), got.Errors, want.Errors)
	check("checkpoint", string(got.Checkpoint) == string(want.Checkpoint), clip(got.Checkpoint), clip(want.Checkpoint))
	return strings.Join(diffs, "; ")
}

func sameAttemptError(a, b later.AttemptError) bool {
	return a.Attempt == b.Attempt && a.Worker == b.Worker && a.Error == b.Error && sameTime(a.At, b.At)
}

// sameInfo fails when anything that people see of a job has changed.
func sameInfo(t failer, what string, got, want *later.JobInfo) {
	t.Helper()
	sameRecord(t, what, got.Record, want.Record)
	equal(t, what+": state", got.State, want.State)
	equal(t, what+": worker", got.Worker, want.Worker)
	equalTimes(t, what+": claimed at", got.ClaimedAt, want.ClaimedAt)
	equalTimes(t, what+": lease until", got.LeaseUntil, want.LeaseUntil)
	equalTimes(t, what+": cancel at", got.CancelAt, want.CancelAt)
	equalTimes(t, what+": died at", got.DiedAt, want.DiedAt)
	equal(t, what+": dead reason", got.DeadReason, want.DeadReason)
	equal(t, what+": log entries", len(got.Log), len(want.Log))
}

func clip(b []byte) string {
	const shown = 120
	if len(b) > shown {
		return fmt.Sprintf("%q… (%d bytes)", b[:shown], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// idsOf are the ids of claimed jobs, in their order.
func idsOf(jobs []*later.Claimed) []int64 {
	ids := make([]int64, 0, len(jobs))
	for _, c := range jobs {
		ids = append(ids, c.ID)
	}
	return ids
}

// listed are the ids of listed jobs, in their order.
func listed(infos []*later.JobInfo) []int64 {
	ids := make([]int64, 0, len(infos))
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}
