package storetest

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// OpenMore is an [Open] whose database can be opened again, as another process would: more
// returns a further store on it, and leaves its end to t.Cleanup. more is nil where nobody
// else can open it.
type OpenMore func(t *testing.T) (store later.Store, more func(t *testing.T) later.Store)

// Limits runs the part of the suite that is about limits, and about what a claim can ask for
// because of them. The invariants:
//
//	capped     at no instant do more leases hold in a scope than may run in it
//	paced      in any stretch of time t at most Burst + t/Every start
//	in order   in an ordered scope one comes after the other
//	found      what nothing holds back is found, whatever is held back beside it
//	untouched  what is held back stays as it is
func Limits(t *testing.T, open OpenMore, lacks ...Lack) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, open OpenMore)
	}{
		{"settings", alone(testLimitSettings)},
		{"standing", alone(testStanding)},
		{"caps", alone(testCaps)},
		{"beside", alone(testBesideLimits)},
		{"crash", alone(testLimitCrash)},
		{"unanswered", alone(testLimitUnanswered)},
		{"change", testLimitChange},
		{"tenants", alone(testEveryTenant)},
		{"rates", testRates},
		{"ordered", testOrdered},
		{"dead in order", alone(testOrderedDead)},
		{"weights", alone(testWeights)},
		{"fair", alone(testFair)},
		{"requests", alone(testRequests)},
		{"due", alone(testHeldDue)},
		{"stress", testLimitStress},
		{"model", alone(testLimitModel)},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, open) })
	}
	for _, lack := range lacks {
		if lack == LackWaker || lack == LackHearing {
			return
		}
	}
	t.Run("wake", func(t *testing.T) { testLimitWake(t, alone1(open)) })
}

// alone is a part of the suite for which one store is enough.
func alone(run func(t *testing.T, open Open)) func(t *testing.T, open OpenMore) {
	return func(t *testing.T, open OpenMore) { run(t, alone1(open)) }
}

func alone1(open OpenMore) Open {
	return func(t *testing.T) later.Store {
		store, _ := open(t)
		return store
	}
}

// limitWay is one of the ways in which jobs of the tenant "acme" that enqueueFor makes come
// under a limit.
type limitWay struct {
	name string
	set  later.Scope // of the limit
	of   later.Scope // whose jobs are counted
}

func limitWays() []limitWay {
	ways := []limitWay{}
	for _, scope := range scopesOf() {
		ways = append(ways, limitWay{string(scope.Of), scope, scope})
	}
	return append(ways, limitWay{"tenant by default", everyTenant, tenant("acme")})
}

var everyTenant = later.Scope{Of: later.ScopeTenants}

func tenant(name string) later.Scope { return later.Scope{Of: later.ScopeTenant, Name: name} }

// atMost is a limit of n that run.
func atMost(n int) later.Limit { return later.Limit{MaxRunning: &n} }

// slow is a rate that, during a test, allows burst starts and no more.
func slow(burst int) later.Limit {
	return later.Limit{Rate: later.Rate{N: 1, Period: long, Burst: burst}}
}

var inOrder = later.Limit{Ordered: true}

// limiter is what the store has for limits.
func (w *world) limiter() later.Limiter {
	w.t.Helper()
	l, ok := w.store.(later.Limiter)
	if !ok {
		w.t.Fatalf("%T is no later.Limiter", w.store)
	}
	return l
}

func (w *world) limit(scope later.Scope, limit later.Limit) {
	w.t.Helper()
	if err := w.limiter().SetLimit(w.ctx, scope, limit, "somebody"); err != nil {
		w.t.Fatalf("SetLimit of %v: %v", scope, err)
	}
}

func (w *world) unlimit(scope later.Scope) {
	w.t.Helper()
	if err := w.limiter().RemoveLimit(w.ctx, scope); err != nil {
		w.t.Fatalf("RemoveLimit of %v: %v", scope, err)
	}
}

func (w *world) limits() []later.ScopeLimit {
	w.t.Helper()
	list, err := w.limiter().Limits(w.ctx)
	if err != nil {
		w.t.Fatalf("Limits: %v", err)
	}
	return list
}

func (w *world) standing(scope later.Scope) later.Standing {
	w.t.Helper()
	standing, err := w.limiter().Standing(w.ctx, scope)
	if err != nil {
		w.t.Fatalf("Standing of %v: %v", scope, err)
	}
	return standing
}

// sameLimit fails unless the limits are equal.
func sameLimit(t failer, what string, got, want later.Limit) {
	t.Helper()
	gotMost, wantMost := -1, -1
	if got.MaxRunning != nil {
		gotMost = *got.MaxRunning
	}
	if want.MaxRunning != nil {
		wantMost = *want.MaxRunning
	}
	equal(t, what+": MaxRunning (-1: none)", gotMost, wantMost)
	equal(t, what+": Rate", got.Rate, want.Rate)
	equal(t, what+": Ordered", got.Ordered, want.Ordered)
	equal(t, what+": OnDead", got.OnDead, want.OnDead)
	equal(t, what+": Weight", got.Weight, want.Weight)
}

// endAs ends a job that was claimed.
func (w *world) endAs(outcome later.Outcome, jobs ...*later.Claimed) {
	w.t.Helper()
	var ends []later.Settlement
	for _, c := range jobs {
		ends = append(ends, end(c, outcome))
	}
	w.settle(ends...)
}

// putOff fails a job, whose next attempt is d away.
func (w *world) putOff(c *later.Claimed, outcome later.Outcome, d time.Duration) {
	w.t.Helper()
	s := end(c, outcome)
	s.Delay = d
	w.settle(s)
}
