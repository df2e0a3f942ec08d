package combine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestContexts(t *testing.T) {
	t.Run("one that has ended does nothing", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			call.do(ctx, 1, 1).wantErr(t, context.Canceled)
			pass(time.Second)
			wantBatches(t, d)
		})
	})

	t.Run("one that ends before its batch has begun takes out its call and no other", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			first := call.do(t.Context(), 1, 1)
			ctx, cancel := context.WithTimeout(t.Context(), commitTime/2)
			defer cancel()
			before, gone, after := call.do(t.Context(), 1, 2), call.do(ctx, 1, 3), call.do(t.Context(), 1, 4)
			pass(commitTime / 2)
			gone.wantErr(t, context.DeadlineExceeded)
			if errors.Is(gone.err, ErrUnderWay) {
				t.Errorf("got %v, want it to be known that nothing was done", gone.err)
			}
			pass(time.Second)
			wantBatches(t, d, []int{1}, []int{2, 4})
			first.want(t, -1)
			before.want(t, -2)
			after.want(t, -4)
		})
	})

	t.Run("one that ends later returns at once, says that the end is unknown, and harms no other", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			call.do(t.Context(), 1, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 2*openTime+commitTime+commitTime/2)
			defer cancel()
			gone, after := call.do(ctx, 1, 2), call.do(t.Context(), 1, 3)
			pass(time.Second)
			gone.wantErr(t, context.DeadlineExceeded)
			gone.wantErr(t, ErrUnderWay)
			if want := 2*openTime + commitTime + commitTime/2; gone.after != want {
				t.Errorf("got its answer after %v, want %v", gone.after, want)
			}
			after.want(t, -3)
			wantBatches(t, d, []int{1}, []int{2, 3})
		})
	})

	t.Run("a lone caller's ends its batch", func(t *testing.T) {
		d := &database{hangs: true}
		test(t, d, 1, func(t *testing.T, call caller) {
			ctx, cancel := context.WithTimeout(t.Context(), commitTime)
			defer cancel()
			a := call.do(ctx, 1, 1)
			pass(commitTime)
			a.wantErr(t, context.DeadlineExceeded)
			a.wantErr(t, ErrUnderWay)
		})
	})

	t.Run("a batch has a bound of its own, and the next one does not suffer", func(t *testing.T) {
		d := &database{hangs: true}
		test(t, d, 1, func(t *testing.T, call caller) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			a, b := call.do(ctx, 1, 1), call.do(t.Context(), 1, 2)
			pass(timeout + 2*openTime)
			d.change(func() { d.hangs = false })
			c := call.do(t.Context(), 1, 3)
			pass(2 * timeout)
			a.wantErr(t, context.DeadlineExceeded)
			b.wantErr(t, context.DeadlineExceeded)
			c.want(t, -3)
		})
	})

	t.Run("a connection is no longer waited for when nobody wants it", func(t *testing.T) {
		d := &database{noConn: true}
		test(t, d, 2, func(t *testing.T, call caller) {
			call.c.quiet = false // there were many
			short, cancelShort := context.WithTimeout(t.Context(), time.Second)
			defer cancelShort()
			long, cancelLong := context.WithTimeout(t.Context(), time.Minute)
			defer cancelLong()
			first, second := call.do(short, 1, 1), call.do(long, 1, 2)
			pass(time.Second)
			first.wantErr(t, context.DeadlineExceeded)
			pass(time.Minute - time.Second)
			second.wantErr(t, context.DeadlineExceeded)
			if second.after != time.Minute {
				t.Errorf("it waited for %v, want it not to end with the first", second.after)
			}
			if d.opens != 1 {
				t.Errorf("got %d attempts to open, want one that waits for whoever is left", d.opens)
			}
			d.change(func() { d.noConn = false })
			pass(openTime / 2)
			third := call.do(t.Context(), 1, 3) // before the attempt has ended
			pass(time.Second)
			third.want(t, -3)
			wantBatches(t, d, []int{3})
		})
	})
}

func TestErrors(t *testing.T) {
	t.Run("of many calls only the one at fault has the error", func(t *testing.T) {
		for culprit := 2; culprit <= 9; culprit++ {
			d := &database{refuses: culprit}
			test(t, d, 1, func(t *testing.T, call caller) {
				answers := []*answer{}
				for n := 1; n <= 9; n++ {
					answers = append(answers, call.do(t.Context(), 1, n))
				}
				pass(time.Second)
				for i, a := range answers {
					if i+1 == culprit {
						a.wantErr(t, errRefused)
					} else {
						a.want(t, -(i + 1))
					}
				}
			})
			if got, most := len(d.batches), 2+2*3; got > most {
				t.Errorf("got %d runs, want %d at most", got, most)
			}
		}
	})

	t.Run("a call is done as a whole or not at all", func(t *testing.T) {
		d := &database{refuses: 3}
		test(t, d, 1, func(t *testing.T, call caller) {
			call.do(t.Context(), 1, 1)
			a := call.do(t.Context(), 1, 2, 3, 4)
			pass(time.Second)
			a.wantErr(t, errRefused)
			wantBatches(t, d, []int{1}, []int{2, 3, 4})
		})
	})

	t.Run("a lost connection is the error of all, and nothing is tried again", func(t *testing.T) {
		d := &database{loses: 3}
		test(t, d, 1, func(t *testing.T, call caller) {
			a, b, c, e := call.do(t.Context(), 1, 1), call.do(t.Context(), 1, 2), call.do(t.Context(), 1, 3), call.do(t.Context(), 1, 4)
			pass(time.Second)
			a.want(t, -1)
			b.wantErr(t, errLost)
			c.wantErr(t, errLost)
			e.wantErr(t, errLost)
			wantBatches(t, d, []int{1}, []int{2, 3, 4})
		})
	})

	t.Run("what cannot be opened is the error of all that wait", func(t *testing.T) {
		d := &database{}
		test(t, d, 1, func(t *testing.T, call caller) {
			call.do(t.Context(), 1, 1)
			pass(openTime)
			d.change(func() { d.down = errLost })
			var answers []*answer
			for n := range 25 { // more than a batch
				answers = append(answers, call.do(t.Context(), 1, n+2))
			}
			pass(time.Second)
			for _, a := range answers {
				a.wantErr(t, errLost)
			}
			if d.opens != 2 {
				t.Errorf("got %d attempts to open, want 2", d.opens)
			}
			d.change(func() { d.down = nil })
			a := call.do(t.Context(), 1, 50)
			pass(time.Second)
			a.want(t, -50)
		})
	})

	t.Run("a panic is an error", func(t *testing.T) {
		d := &database{panics: 2}
		test(t, d, 1, func(t *testing.T, call caller) {
			call.do(t.Context(), 1, 1)
			a, b := call.do(t.Context(), 1, 2), call.do(t.Context(), 1, 3)
			pass(time.Second)
			for _, got := range []*answer{a, b} {
				got.wantErr(t, ErrUnderWay)
				if !strings.Contains(fmt.Sprint(got.err), "a bug") {
					t.Errorf("got %v, want it to name the bug", got.err)
				}
			}
			c := call.do(t.Context(), 1, 4)
			pass(time.Second)
			c.want(t, -4)
		})
	})

	t.Run("so is an answer of the wrong length", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := New(Config[int, int]{
				Open:      func(context.Context) (Conn[int, int], error) { return short{}, nil },
				Divisible: func(error) bool { return true },
				MaxItems:  1, MaxBytes: 1, MaxBatches: 1, Timeout: timeout,
			})
			if _, err := c.Do(t.Context(), []int{1, 2}, 1); !errors.Is(err, ErrUnderWay) {
				t.Errorf("got %v, want %v", err, ErrUnderWay)
			}
		})
	})
}

// short answers with too little.
type short struct{}

func (short) Run(context.Context, []int) ([]int, error) { return []int{1}, nil }
func (short) Release()                                  {}
