package later

import (
	"context"
	"fmt"
	"time"
)

// Limit says how jobs of a scope may start. The zero value limits nothing.
//
// A job is under up to three limits: its queue's, its kind's (over all queues) and its tenant's.
// It starts only when all of them let it. What is held back stays as it is: it costs no
// attempt and no write, and keeps no job of another scope from being found.
type Limit struct {
	// MaxRunning is how many may run at once, in all processes together: nil is any
	// number, 0 is none, at most [MaxCap]. A job runs as long as its lease holds, so a worker
	// that dies frees its places when its leases end. Exact: at no instant do more leases hold.
	MaxRunning *int
	// Rate is how many may start in a period.
	Rate Rate
	// Ordered has jobs run one after the other, in the order of priority, run_at and id,
	// also across retries: one that has begun and then failed or snoozed holds back those
	// behind it until it has ended. It is a MaxRunning of 1, which may be left nil.
	Ordered bool
	// OnDead is what a dead job does to those behind it, if the scope is ordered.
	OnDead OnDead
	// Weight is how many jobs a tenant has in its turn, where another one has 1: 0 is 1, at
	// most [MaxWeight]. Only for a tenant.
	Weight int
}

// Rate is N starts in each Period, with bursts of at most Burst. The zero value is no limit.
// It is exact over all processes, by the database's clock: in any stretch of time t at
// most Burst + t·N/Period jobs start.
type Rate struct {
	N      int           // 1 to 1,000,000
	Period time.Duration // 1 ms to 365 days; at least 1 µs for each start
	// Burst is how many may start at once after a quiet time: 0 is 1, which spreads the
	// starts evenly; at most 1,000,000.
	Burst int
}

// OnDead is what a dead job does to those behind it in an ordered scope.
type OnDead string

const (
	DeadGoesBy OnDead = ""       // the next one runs
	DeadBlocks OnDead = "blocks" // none runs until a person has retried or deleted the dead job
)

const (
	// MaxCap is the largest MaxRunning. Chosen: each claim under a cap looks at the jobs that
	// run under it.
	MaxCap = 10_000
	// MaxWeight is the largest Weight. Chosen.
	MaxWeight = 1_000

	maxStarts     = 1_000_000
	minRatePeriod = time.Millisecond
	maxRatePeriod = 365 * 24 * time.Hour
)

// ScopeTenants is the scope of a limit for each tenant, counted by itself, as far as the
// tenant's own limit does not say otherwise: its MaxRunning (with Ordered and OnDead) and its
// Rate each take the place of the one here if they are set. Jobs without a tenant are not
// concerned. It has no name, and cannot be paused.
const ScopeTenants ScopeOf = "tenants"

// ScopeLimit is a scope with its limit.
type ScopeLimit struct {
	Scope Scope
	Limit Limit
	Since time.Time // when it was set, by the database's clock
	By    string    // who set it
}

// Standing is how things stand with a scope's limit.
type Standing struct {
	// Limit is what holds for the scope: for a tenant with what it has from
	// [ScopeTenants]. The zero value: none.
	Limit Limit
	// Running are the jobs that fill MaxRunning, in the order of their ids. In an ordered scope
	// it is the one that the others wait for, which may be waiting for its next attempt, or be
	// dead if that blocks.
	Running []int64
	// NextStart is when the rate lets the next job start; zero: now.
	NextStart time.Time
}

// Limiter is the part of an [Operator] that limits.
type Limiter interface {
	// SetLimit sets the limit of a scope, in place of the one that it had, in every process.
	// It is stored. A claim that begins after SetLimit has returned obeys it. What runs goes on,
	// and counts: nothing starts until fewer run. The error is that of [CheckLimit].
	SetLimit(ctx context.Context, scope Scope, limit Limit, by string) error
	// RemoveLimit removes it, and wakes workers that wait; ErrNotFound when there was none.
	RemoveLimit(ctx context.Context, scope Scope) error
	// Limits returns all limits, by what they are of and name.
	Limits(ctx context.Context) ([]ScopeLimit, error)
	// Standing tells how things stand with the limit of a queue, a kind or a tenant, also of
	// one that nothing limits.
	Standing(ctx context.Context, scope Scope) (Standing, error)
}

// CheckLimit returns nil when a limit can be set for a scope by somebody; otherwise a
// [FieldError] that names the field.
func CheckLimit(scope Scope, limit Limit, by string) error {
	if scope.Of == ScopeTenants {
		if scope.Name != "" {
			return &FieldError{Field: "scope", Reason: "of every tenant has no name"}
		}
	} else if err := scope.Check(); err != nil {
		return err
	}
	if err := checkBy(by); err != nil {
		return err
	}
	if limit.MaxRunning == nil && limit.Rate == (Rate{}) && !limit.Ordered && limit.Weight == 0 {
		return &FieldError{Field: "limit", Reason: "limits nothing; give MaxRunning, Rate, Ordered or Weight, or remove it"}
	}
	if err := limit.checkRunning(); err != nil {
		return err
	}
	if limit.Weight != 0 {
		if scope.Of != ScopeTenant {
			return &FieldError{Field: "Weight", Reason: fmt.Sprintf("is only for a tenant, not for %v", scope)}
		}
		if limit.Weight < 1 || limit.Weight > MaxWeight {
			return &FieldError{Field: "Weight", Reason: fmt.Sprintf("is %d, not 1 to %d", limit.Weight, MaxWeight)}
		}
	}
	return limit.Rate.check()
}

func (l Limit) checkRunning() error {
	switch {
	case l.MaxRunning != nil && (*l.MaxRunning < 0 || *l.MaxRunning > MaxCap):
		return &FieldError{Field: "MaxRunning", Reason: fmt.Sprintf("is %d, not 0 to %d", *l.MaxRunning, MaxCap)}
	case l.Ordered && l.MaxRunning != nil && *l.MaxRunning != 1:
		return &FieldError{Field: "MaxRunning", Reason: fmt.Sprintf("is %d; what is ordered runs one at a time", *l.MaxRunning)}
	case l.OnDead != DeadGoesBy && l.OnDead != DeadBlocks:
		return &FieldError{Field: "OnDead", Reason: fmt.Sprintf("is %q; it is %q or %q", l.OnDead, DeadGoesBy, DeadBlocks)}
	case l.OnDead != DeadGoesBy && !l.Ordered:
		return &FieldError{Field: "OnDead", Reason: "is only for what is ordered"}
	}
	return nil
}

func (r Rate) check() error {
	switch {
	case r == Rate{}:
		return nil
	case r.N < 1 || r.N > maxStarts:
		return &FieldError{Field: "Rate", Reason: fmt.Sprintf("has %d starts, not 1 to %d", r.N, maxStarts)}
	case r.Period < minRatePeriod || r.Period > maxRatePeriod:
		return &FieldError{Field: "Rate", Reason: fmt.Sprintf("has the period %v, not %v to %v", r.Period, minRatePeriod, maxRatePeriod)}
	case r.Burst < 0 || r.Burst > maxStarts:
		return &FieldError{Field: "Rate", Reason: fmt.Sprintf("has a burst of %d, not 0 to %d", r.Burst, maxStarts)}
	case r.Period < time.Duration(r.N)*time.Microsecond:
		return &FieldError{Field: "Rate", Reason: "has more than one start in each microsecond"}
	case r.Every()*time.Duration(max(r.Burst, 1)) > maxRatePeriod || r.Every()*time.Duration(max(r.Burst, 1)) < 0:
		return &FieldError{Field: "Rate", Reason: fmt.Sprintf("needs more than %v to gather its burst", maxRatePeriod)}
	}
	return nil
}

// Every is the time between two starts when they are spread evenly: Period/N, rounded up to a
// microsecond, which is as exact as the databases' clocks are kept. Of the zero value it is 0.
func (r Rate) Every() time.Duration {
	if r.N == 0 {
		return 0
	}
	return ((r.Period+time.Duration(r.N)-1)/time.Duration(r.N) + time.Microsecond - 1).Truncate(time.Microsecond)
}

// Holds reports whether the limit can hold a job back; a weight alone does not.
func (l Limit) Holds() bool { return l.MaxRunning != nil || l.Ordered || l.Rate != Rate{} }

// Cap is how many may run at once, and whether that is limited.
func (l Limit) Cap() (n int, limited bool) {
	switch {
	case l.Ordered:
		return 1, true
	case l.MaxRunning != nil:
		return *l.MaxRunning, true
	}
	return 0, false
}
