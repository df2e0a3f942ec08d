package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
)

// TestJobContext compares a handler's context with what the standard library
// makes of the same events, whether the handler looked at it before or not.
func TestJobContext(t *testing.T) {
	type key struct{}
	boom := errors.New("boom")
	for _, c := range []struct {
		name  string
		end   error // nil: nothing ends it
		after time.Duration
		err   error
		cause error
	}{
		{"nothing happens", nil, time.Second, nil, nil},
		{"it is ended", boom, time.Second, context.Canceled, boom},
		{"its time is over", nil, time.Minute, context.DeadlineExceeded, later.ErrTimeout},
		{"its time is over before it is ended", boom, 2 * time.Minute, context.DeadlineExceeded, later.ErrTimeout},
	} {
		for _, looked := range []bool{false, true} {
			name := c.name + ", not looked at before"
			if looked {
				name = c.name + ", looked at before"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					deadline := time.Now().Add(time.Minute)
					ctx := &jobContext{values: context.WithValue(t.Context(), key{}, "v"), deadline: deadline}
					var child context.Context
					if looked {
						var cancel context.CancelFunc
						child, cancel = context.WithCancel(ctx)
						defer cancel()
					}
					time.Sleep(c.after)
					synctest.Wait()
					if got := causeOf(ctx); c.end == nil && !errors.Is(got, c.cause) {
						t.Errorf("got the cause %v for the runtime, want %v", got, c.cause)
					}
					if c.end != nil {
						ctx.end(c.end, time.Now())
						ctx.end(errors.New("too late"), time.Now())
					}
					if got := causeOf(ctx); !errors.Is(got, c.cause) {
						t.Errorf("got the cause %v for the runtime, want %v", got, c.cause)
					}
					if child == nil {
						var cancel context.CancelFunc
						child, cancel = context.WithCancel(ctx)
						defer cancel()
					}
					for _, see := range []context.Context{ctx, child} {
						if see.Err() != c.err || context.Cause(see) != c.cause {
							t.Errorf("got the error %v and the cause %v, want %v and %v", see.Err(), context.Cause(see), c.err, c.cause)
						}
						select {
						case <-see.Done():
							if c.err == nil {
								t.Error("got it done, want it to go on")
							}
						default:
							if c.err != nil {
								t.Error("got it going on, want it done")
							}
						}
						if got, ok := see.Deadline(); !ok || !got.Equal(deadline) {
							t.Errorf("got the deadline %v, want %v", got, deadline)
						}
						if see.Value(key{}) != "v" {
							t.Error("got no value, want that of Run's context")
						}
					}
					ctx.end(context.Canceled, time.Now()) // its handler has returned
					if ctx.Err() == nil {
						t.Error("got no error after the handler returned, want one")
					}
				})
			})
		}
	}
}
