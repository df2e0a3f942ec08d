package postgres

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// heardBy is a watch that has just heard of a job. Others do, peers in number with it.
func heardBy(peers int, w *watch) *watch {
	w.queues, w.wakes = []string{"default"}, make(chan struct{}, 1)
	w.ear = &ear{watches: []*watch{w}}
	w.hears(peers)
	return w
}

func (w *watch) hears(peers int) {
	w.ear.mu.Lock()
	defer w.ear.mu.Unlock()
	w.ear.heard("default", peers)
}

// after calls do then.
func (w *watch) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		w.ear.mu.Lock()
		defer w.ear.mu.Unlock()
		do()
	})
}

// wakesOf says when wake-ups come.
func wakesOf(w *watch) string {
	began, end := time.Now(), time.After(time.Minute)
	var at []time.Duration
	for {
		select {
		case <-w.wakes:
			at = append(at, time.Since(began))
		case <-end:
			return fmt.Sprint(at)
		}
	}
}

// Which looks follow a notification: for those who committed after the one that notified.
func TestLooksAfterANotification(t *testing.T) {
	look := func(name, want string, watch func() *watch) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := wakesOf(watch()); got != want {
					t.Errorf("wake-ups at %s, want %s", got, want)
				}
			})
		})
	}
	look("the only process looks at once, and twice more", "[0s 25ms 500ms]", func() *watch {
		return heardBy(1, &watch{waiting: true, known: true})
	})
	look("the next notification puts off what is left of them", "[0s 25ms 400ms 425ms 900ms]", func() *watch {
		w := heardBy(1, &watch{waiting: true, known: true})
		time.AfterFunc(400*time.Millisecond, func() { w.hears(1) })
		return w
	})
	look("one that is busy just then looks later", "[25ms 500ms]", func() *watch {
		w := heardBy(1, &watch{known: true})
		w.after(10*time.Millisecond, func() { w.waiting = true })
		return w
	})
	look("one that is busy for longer still has the last look", "[500ms]", func() *watch {
		w := heardBy(1, &watch{known: true})
		w.after(100*time.Millisecond, func() { w.waiting = true })
		return w
	})
	look("one that nobody takes for waiting has none", "[]", func() *watch {
		w := heardBy(1, &watch{})
		w.after(10*time.Millisecond, func() { w.waiting = true })
		return w
	})

	t.Run("of many processes one looks again soon, and three later, on average", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const notifications, peers = 200, 100
			var soon, late int
			for range notifications * peers {
				w := heardBy(peers, &watch{waiting: true, known: true})
				if !w.looks[lookTrail].IsZero() {
					soon++
				}
				if !w.looks[lookLongTrail].IsZero() {
					late++
				}
				stop(w.timer)
			}
			// Six times the standard deviation.
			if soon < 115 || soon > 285 {
				t.Errorf("%d looks soon after %d notifications, want about one each", soon, notifications)
			}
			if late < 450 || late > 750 {
				t.Errorf("%d late looks after %d notifications, want about three each", late, notifications)
			}
		})
	})
}
