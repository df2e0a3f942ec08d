package combine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	openTime   = time.Millisecond
	commitTime = 10 * time.Millisecond
	timeout    = time.Second
)

var (
	errRefused = errors.New("refused")
	errLost    = errors.New("connection lost")
)

// database is what the calls of these tests go to: it answers item n with -n.
type database struct {
	mu      sync.Mutex
	hangs   bool // a batch takes for ever
	noConn  bool // an Open takes until its context ends, and a moment longer
	down    error
	refuses int // a batch with this item is refused
	loses   int // at this item the connection breaks, for good
	panics  int

	batches  [][]int
	values   []any // of the context of each batch
	opens    int
	open     int // connections
	released int
	underWay int
	most     int // batches under way at a time
}

// change is for changes while calls are under way.
func (d *database) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *database) Open(ctx context.Context) (Conn[int, int], error) {
	time.Sleep(openTime)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opens++
	if d.noConn {
		d.mu.Unlock()
		<-ctx.Done()
		time.Sleep(openTime)
		d.mu.Lock()
		return nil, ctx.Err()
	}
	if d.down != nil {
		return nil, d.down
	}
	d.open++
	return &conn{d: d}, nil
}

type conn struct {
	d      *database
	broken bool
}

type key struct{}

func (c *conn) Run(ctx context.Context, items []int) ([]int, error) {
	d := c.d
	d.mu.Lock()
	d.batches = append(d.batches, slices.Clone(items))
	d.values = append(d.values, ctx.Value(key{}))
	d.underWay++
	d.most = max(d.most, d.underWay)
	hangs := d.hangs
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.underWay--
	}()
	wait := commitTime
	if hangs {
		wait = time.Hour
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(wait):
	}
	answers := make([]int, len(items))
	for i, item := range items {
		switch {
		case item == 0:
		case c.broken || item == d.loses:
			c.broken = true
			return nil, errLost
		case item == d.refuses:
			return nil, errRefused
		case item == d.panics:
			panic("a bug")
		}
		answers[i] = -item
	}
	return answers, nil
}

func (c *conn) Release() {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.released++
}

func (d *database) combiner(batches int) *Combiner[int, int] {
	return New(Config[int, int]{
		Open: d.Open, Divisible: func(err error) bool { return errors.Is(err, errRefused) },
		MaxItems: 10, MaxBytes: 1000, MaxBatches: batches, Timeout: timeout,
	})
}

// answer is what became of a call.
type answer struct {
	results []int
	err     error
	after   time.Duration
}

// caller has calls made in goroutines of their own.
type caller struct {
	c     *Combiner[int, int]
	start time.Time
}

func (c caller) do(ctx context.Context, bytes int, items ...int) *answer {
	a := &answer{}
	go func() {
		a.results, a.err = c.c.Do(ctx, items, bytes)
		a.after = time.Since(c.start)
	}()
	synctest.Wait() // it waits, or has its answer
	return a
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// test runs f in a bubble and sees to it that nothing of the Combiner is left.
func test(t *testing.T, d *database, batches int, f func(t *testing.T, call caller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := d.combiner(batches)
		f(t, caller{c, time.Now()})
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.waiting) > 0 || c.batches > 0 || c.opening != nil {
			t.Errorf("left: %d calls, %d batches, opening %t", len(c.waiting), c.batches, c.opening != nil)
		}
		if d.open != d.released {
			t.Errorf("%d connections were opened and %d released", d.open, d.released)
		}
	})
}

func (a *answer) want(t *testing.T, results ...int) {
	t.Helper()
	if a.err != nil || !reflect.DeepEqual(a.results, results) {
		t.Errorf("got %v, %v, want %v", a.results, a.err, results)
	}
}

func (a *answer) wantErr(t *testing.T, want error) {
	t.Helper()
	if !errors.Is(a.err, want) || a.results != nil {
		t.Errorf("got %v, %v, want %v", a.results, a.err, want)
	}
}

func wantBatches(t *testing.T, d *database, want ...[]int) {
	t.Helper()
	if !reflect.DeepEqual(d.batches, want) {
		t.Errorf("got the batches %v, want %v", d.batches, want)
	}
}
