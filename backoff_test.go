package later_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// middle makes the jitter nothing.
func middle() float64 { return 0.5 }

func TestBackoff(t *testing.T) {
	t.Run("the zero value is 10 s, four times as long each time, up to 6 h", func(t *testing.T) {
		want := []time.Duration{10 * time.Second, 40 * time.Second, 160 * time.Second, 640 * time.Second, 2560 * time.Second, 10240 * time.Second, 6 * time.Hour, 6 * time.Hour}
		for i, want := range want {
			if got := (later.Backoff{}).Delay(i+1, middle); got != want {
				t.Errorf("after %d failures got %v, want %v", i+1, got, want)
			}
		}
	})
	t.Run("less than one failure counts as one", func(t *testing.T) {
		for _, failures := range []int{0, -1, math.MinInt} {
			if got, want := (later.Backoff{}).Delay(failures, middle), 10*time.Second; got != want {
				t.Errorf("after %d failures got %v, want %v", failures, got, want)
			}
		}
	})
	t.Run("jitter spreads to both sides by its share", func(t *testing.T) {
		b := later.Backoff{Base: 100 * time.Second, Jitter: 0.5}
		if got, want := b.Delay(1, func() float64 { return 0 }), 50*time.Second; got != want {
			t.Errorf("at the least got %v, want %v", got, want)
		}
		if got, most := b.Delay(1, func() float64 { return math.Nextafter(1, 0) }), 150*time.Second; got > most || got < most-time.Second {
			t.Errorf("at the most got %v, want just under %v", got, most)
		}
	})
	t.Run("negative jitter is none", func(t *testing.T) {
		b := later.Backoff{Base: time.Minute, Jitter: -1}
		for range 100 {
			if got := b.Delay(1, nil); got != time.Minute {
				t.Fatalf("got %v, want %v", got, time.Minute)
			}
		}
	})
}

// Case 91: doubling from 1 s, and attempt counts far past every overflow. Case 89:
// 40,000 failures.
func TestBackoffDoesNotOverflow(t *testing.T) {
	for _, b := range []later.Backoff{
		{Base: time.Second, Factor: 2, Cap: later.MaxBackoff, Jitter: -1},
		{Base: time.Second, Factor: 2, Cap: later.MaxBackoff},
		{Base: time.Second, Factor: math.MaxFloat64, Cap: time.Hour, Jitter: 1},
		{Base: later.MaxBackoff, Factor: math.Inf(1), Cap: later.MaxBackoff, Jitter: 1},
		{Base: 1, Factor: 1, Cap: 1, Jitter: 1}, // jitter over nearly nothing
		{},
	} {
		if err := b.Check(); err != nil {
			t.Fatalf("%+v: %v", b, err)
		}
		failures := []int{300, 309, 310, 1000, 1024, 1025, 40_000, math.MaxInt32, math.MaxInt}
		for n := 1; n <= 100; n++ {
			failures = append(failures, n)
		}
		for _, n := range failures {
			if got := b.Delay(n, nil); got <= 0 || got > later.MaxBackoff {
				t.Errorf("%+v after %d failures: got %v, want over 0 and at most %v", b, n, got, later.MaxBackoff)
			}
		}
	}
}

func TestBackoffIsBoundedAndMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := later.Backoff{
			Base:   time.Duration(rapid.Int64Range(0, int64(later.MaxBackoff)).Draw(t, "base")),
			Factor: rapid.Float64Range(1, 1e6).Draw(t, "factor"),
			Jitter: rapid.Float64Range(-1, 1).Draw(t, "jitter"),
		}
		if rapid.Bool().Draw(t, "with cap") {
			least := max(b.Base, 10*time.Second)
			b.Cap = time.Duration(rapid.Int64Range(int64(least), int64(max(least, later.MaxBackoff))).Draw(t, "cap"))
		}
		if err := b.Check(); err != nil {
			t.Fatalf("%+v: %v", b, err)
		}
		limit := b.Cap
		if limit == 0 {
			limit = max(6*time.Hour, b.Base)
		}
		most := min(time.Duration(float64(limit)*2), later.MaxBackoff) // jitter is at most 1
		before := time.Duration(0)
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		for _, n := range []int{1, 2, 3, 5, 10, 100, 1000, 100_000, math.MaxInt} {
			if got := b.Delay(n, func() float64 { return random }); got < time.Millisecond || got > most {
				t.Fatalf("%+v after %d failures: got %v, want from 1ms to %v", b, n, got, most)
			}
			got := b.Delay(n, middle)
			// A float64 counts a year's nanoseconds in steps of 4.
			if got < before || got > max(limit+4, time.Millisecond) {
				t.Fatalf("%+v after %d failures: got %v without jitter, want from %v to %v", b, n, got, before, limit)
			}
			before = got
		}
	})
}

// Case 92: 10,000 jobs that fail together, nominal delay 60 s, jitter ±20%.
func TestBackoffSpreadsAHerd(t *testing.T) {
	b := later.Backoff{Base: time.Minute, Jitter: 0.2}
	random := rand.New(rand.NewPCG(1, 2)).Float64
	distinct, bins := map[int64]bool{}, map[int64]int{}
	for range 10_000 {
		d := b.Delay(1, random)
		if d < 48*time.Second || d > 72*time.Second {
			t.Fatalf("got %v, want from 48 s to 72 s", d)
		}
		distinct[d.Milliseconds()] = true
		bins[int64(d/time.Second)]++
	}
	if got, want := len(distinct), 1000; got < want {
		t.Errorf("got %d distinct milliseconds, want at least %d", got, want)
	}
	for second, n := range bins {
		if n >= 834 { // twice the mean of 10,000 in 24 s
			t.Errorf("got %d retries in second %d, want under 834", n, second)
		}
	}
}

// Case 91: a base of 0 is the default; a cap under the base is refused.
func TestBackoffCheck(t *testing.T) {
	for _, b := range []later.Backoff{
		{Base: -1},
		{Base: time.Minute, Cap: time.Second},
		{Cap: time.Second}, // under the default base
		{Cap: later.MaxBackoff + 1},
		{Base: later.MaxBackoff + 1},
		{Cap: -1},
		{Factor: 0.99},
		{Factor: -2},
		{Factor: math.NaN()},
		{Jitter: 1.01},
		{Jitter: math.NaN()},
		{Jitter: math.Inf(1)},
	} {
		if err := b.Check(); !errors.Is(err, later.ErrInvalid) {
			t.Errorf("%+v: got %v, want a FieldError", b, err)
		}
	}
	for _, b := range []later.Backoff{{}, {Base: 24 * time.Hour}, {Factor: 1}, {Jitter: 1}, {Jitter: -5}, {Base: later.MaxBackoff}} {
		if err := b.Check(); err != nil {
			t.Errorf("%+v: got %v, want nil", b, err)
		}
	}
}
