package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
)

func TestWatch(t *testing.T) {
	work := later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}
	for _, c := range []struct {
		behaviour string
		opts      later.Options
		busy      bool
		want      int
	}{
		{"a job of its queue wakes", later.Options{Queue: "mail"}, false, 1},
		{"a job that is due within WakeAhead wakes", later.Options{Queue: "mail", Delay: later.WakeAhead}, false, 1},
		{"a job that is due later wakes nobody", later.Options{Queue: "mail", Delay: later.WakeAhead + time.Millisecond}, false, 0},
		{"a job of another queue wakes nobody", later.Options{}, false, 0},
		{"a worker that is busy is not woken", later.Options{Queue: "mail"}, true, 0},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // its clock stands still
				store := memory.New()
				watch := store.Watch("worker-1", []string{"mail", "bulk"})
				defer watch.Close()
				for range 2 { // the second call changes nothing
					if heard, err := watch.Waiting(t.Context()); !heard || err != nil {
						t.Fatalf("Waiting: got %v, %v, want true", heard, err)
					}
				}
				if c.busy {
					watch.Busy()
				}
				for range 3 { // wake-ups merge
					if _, err := store.Enqueue(t.Context(), work, c.opts); err != nil {
						t.Fatal(err)
					}
				}
				if got := len(watch.Wakes()); got != c.want {
					t.Errorf("got %d wake-ups, want %d", got, c.want)
				}
			})
		})
	}
}
