package later

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff is the delay before a retry: Base, then Factor times as long after
// each further failure, up to Cap, and each spread by Jitter so that jobs that
// failed together do not come back together. The zero value is 10 s, 40 s,
// 160 s, 640 s, … up to 6 h, each ±20%: the five attempts of a default job
// cover a quarter of an hour. The values are chosen, not measured.
type Backoff struct {
	// Base is the delay after the first failure; 0 is 10 s.
	Base time.Duration
	// Factor is 1 or more; 0 is 4.
	Factor float64
	// Cap is the longest delay before jitter; 0 is 6 h.
	Cap time.Duration
	// Jitter is the share by which a delay may be longer or shorter, from 0 to
	// 1; 0 is 0.2, and a negative value is none.
	Jitter float64
}

// Delay returns how long to wait after the given number of failures (1 is the
// first; less counts as 1). It is never under a millisecond, never more than
// Cap·(1+Jitter) or [MaxBackoff] otherwise, and for any number of failures at least as long, before jitter, as for fewer.
// random returns a number in [0, 1); nil is the process's own source.
func (b Backoff) Delay(failures int, random func() float64) time.Duration {
	b = b.withDefaults()
	if random == nil {
		random = rand.Float64
	}
	// In floating point, where an overflow is +Inf and not a negative number.
	delay := float64(b.Base) * math.Pow(b.Factor, float64(max(failures, 1)-1))
	delay = min(delay, float64(b.Cap))
	delay *= 1 + b.Jitter*(2*random()-1)
	return max(time.Duration(min(delay, float64(MaxBackoff))), time.Millisecond)
}

// MaxBackoff is the longest delay that a Backoff may have, jitter included.
const MaxBackoff = 365 * 24 * time.Hour

// Check returns a [FieldError] when a value of b is out of its range.
func (b Backoff) Check() error {
	b = b.withDefaults()
	fault := func(format string, args ...any) error {
		return &FieldError{Field: "backoff", Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case b.Base <= 0:
		return fault("has the base %v; it must be positive", b.Base)
	case b.Cap < b.Base:
		return fault("has the cap %v, which is under its base %v", b.Cap, b.Base)
	case b.Cap > MaxBackoff:
		return fault("has the cap %v; at most %v is allowed", b.Cap, MaxBackoff)
	case !(b.Factor >= 1): // also NaN
		return fault("has the factor %v; it must be 1 or more", b.Factor)
	case !(b.Jitter <= 1):
		return fault("has the jitter %v; it goes from 0 to 1", b.Jitter)
	}
	return nil
}

func (b Backoff) withDefaults() Backoff {
	if b.Base == 0 {
		b.Base = 10 * time.Second
	}
	if b.Factor == 0 {
		b.Factor = 4
	}
	if b.Cap == 0 {
		b.Cap = max(6*time.Hour, b.Base)
	}
	if b.Jitter == 0 {
		b.Jitter = 0.2
	}
	if b.Jitter < 0 {
		b.Jitter = 0
	}
	return b
}
