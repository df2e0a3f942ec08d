package combine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDo(t *testing.T) {
	t.Run("a lone caller is not delayed", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			a := call.do(t.Context(), 1, 1, 2)
			pass(time.Second)
			a.want(t, -1, -2)
			if want := openTime + commitTime; a.after != want {
				t.Errorf("got its answer after %v, want %v", a.after, want)
			}
		})
	})

	t.Run("what comes during a batch makes up the next one, and each caller gets its own answers in order", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			a, b, c := call.do(t.Context(), 1, 1), call.do(t.Context(), 1, 2, 3), call.do(t.Context(), 1, 4)
			none := call.do(t.Context(), 1)
			pass(time.Second)
			wantBatches(t, d, []int{1}, []int{2, 3, 4})
			a.want(t, -1)
			b.want(t, -2, -3)
			c.want(t, -4)
			none.want(t, []int{}...)
			if want := 2 * (openTime + commitTime); b.after != want || c.after != want {
				t.Errorf("got answers after %v and %v, want %v", b.after, c.after, want)
			}
		})
	})

	t.Run("what comes while a batch is opened is taken along", func(t *testing.T) {
		d := &database{}
		test(t, d, 2, func(t *testing.T, call caller) {
			call.do(t.Context(), 1, 1) // alone
			pass(openTime / 4)         // else both would begin at the same moment, in either order
			call.do(t.Context(), 1, 2)
			pass(openTime / 2)
			call.do(t.Context(), 1, 3)
			pass(time.Second)
			wantBatches(t, d, []int{1}, []int{2, 3})
		})
	})

	t.Run("no more batches are under way than allowed", func(t *testing.T) {
		for _, batches := range []int{1, 2, 3} {
			d := &database{}
			test(t, d, batches, func(t *testing.T, call caller) {
				for i := range 200 {
					call.do(t.Context(), 1, i+1)
					pass(openTime / 2)
				}
				pass(time.Second)
			})
			if d.most != batches {
				t.Errorf("got %d batches at a time, want %d", d.most, batches)
			}
		}
	})

	t.Run("batches keep to their bounds and to the order of the calls", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			call.do(t.Context(), 1, 1)
			call.do(t.Context(), 1, 2, 3, 4, 5, 6, 7)
			call.do(t.Context(), 1, 8, 9, 10, 11)
			call.do(t.Context(), 1, 12)
			call.do(t.Context(), 600, 13)
			call.do(t.Context(), 400, 14)
			call.do(t.Context(), 1, 15)
			large := call.do(t.Context(), 5000, 16)
			call.do(t.Context(), 1, 17)
			long := call.do(t.Context(), 1, slices.Repeat([]int{18}, 20)...)
			pass(time.Second)
			wantBatches(t, d, []int{1}, []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, []int{12, 13}, []int{14, 15}, []int{16},
				[]int{17}, slices.Repeat([]int{18}, 20))
			large.want(t, -16)
			long.want(t, slices.Repeat([]int{-18}, 20)...)
		})
	})

	t.Run("a batch has the values of its first caller's context", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			for _, v := range []string{"a", "b", "c"} {
				call.do(context.WithValue(t.Context(), key{}, v), 1, 1)
			}
			pass(time.Second)
			if want := []any{"a", "b"}; !reflect.DeepEqual(d.values, want) {
				t.Errorf("got %v, want %v", d.values, want)
			}
		})
	})

	t.Run("callers that come back after a crowd share a batch at once", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			for i := range 3 {
				call.do(t.Context(), 1, i+1)
			}
			pass(time.Second)
			for i := range 3 {
				call.do(t.Context(), 1, i+4)
			}
			pass(time.Second)
			wantBatches(t, d, []int{1}, []int{2, 3}, []int{4, 5, 6})
		})
	})

	t.Run("a caller alone after a crowd is alone again", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			for i := range 3 {
				call.do(t.Context(), 1, i+1)
			}
			pass(time.Second)
			for range 2 { // the first of them finds out
				ctx, cancel := context.WithCancel(t.Context())
				a := call.do(ctx, 1, 4)
				pass(openTime + commitTime/2)
				cancel()
				pass(time.Second)
				a.wantErr(t, ErrUnderWay)
			}
			if !call.c.quiet {
				t.Error("it is not quiet")
			}
		})
	})
}

func TestClose(t *testing.T) {
	t.Run("what has begun is finished, what waits is not done, and what comes is refused", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			begun, waits := call.do(t.Context(), 1, 1), call.do(t.Context(), 1, 2)
			pass(openTime + commitTime/2)
			call.c.Close()
			synctest.Wait()
			begun.want(t, -1)
			waits.wantErr(t, ErrClosed)
			call.do(t.Context(), 1, 3).wantErr(t, ErrClosed)
			call.c.Close()
			wantBatches(t, d, []int{1})
		})
	})

	for _, quiet := range []bool{false, true} { // by a batch, and by a lone call
		t.Run(fmt.Sprintf("a connection is no longer waited for, quiet %t", quiet), func(t *testing.T) {
			d := &database{noConn: true}
			test(t, d, 1, func(t *testing.T, call caller) {
				call.c.quiet = quiet
				a := call.do(t.Context(), 1, 1)
				synctest.Wait()
				call.c.Close()
				synctest.Wait()
				a.wantErr(t, ErrClosed)
				call.do(t.Context(), 1, 2).wantErr(t, ErrClosed)
			})
		})
	}
}

// Many callers, some of whom give up, on real time and with the race detector.
func TestCrowd(t *testing.T) {
	d := &database{}
	c := New(Config[int, int]{
		Open:      func(context.Context) (Conn[int, int], error) { return &fast{d: d}, nil },
		Divisible: func(err error) bool { return errors.Is(err, errRefused) },
		MaxItems:  50, MaxBytes: 1 << 20, MaxBatches: 2, Timeout: time.Minute,
	})
	const callers, calls = 50, 200
	var crowd sync.WaitGroup
	for n := range callers {
		crowd.Go(func() {
			for i := range calls {
				item := n*calls + i + 1
				ctx, cancel := context.WithCancel(t.Context())
				if i%10 == 0 {
					go cancel()
				}
				results, err := c.Do(ctx, []int{item, -item}, 8)
				cancel()
				switch {
				case item%7 == 0 && err == nil:
					t.Errorf("%d: got no error, want it refused", item)
				case item%7 != 0 && err != nil && i%10 != 0:
					t.Errorf("%d: got %v", item, err)
				case err == nil && !reflect.DeepEqual(results, []int{-item, item}):
					t.Errorf("%d: got %v, want its own answers", item, results)
				}
			}
		})
	}
	crowd.Wait()
	c.Close()
	done := map[int]int{}
	for _, batch := range d.batches {
		for _, item := range batch {
			done[item]++
		}
	}
	for item, n := range done {
		if n != 1 || item%7 == 0 {
			t.Errorf("%d was done %d times", item, n)
		}
	}
	if want := callers * calls * 2 * 6 / 7 * 8 / 10; len(done) < want {
		t.Errorf("got %d items done, want at least %d", len(done), want)
	}
}

// fast refuses multiples of seven, and keeps what it did.
type fast struct{ d *database }

func (f *fast) Run(_ context.Context, items []int) ([]int, error) {
	answers := make([]int, len(items))
	for i, item := range items {
		if item%7 == 0 {
			return nil, errRefused
		}
		answers[i] = -item
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.batches = append(f.d.batches, slices.Clone(items))
	return answers, nil
}

func (f *fast) Release() {}
