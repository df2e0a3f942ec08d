package later

import (
	"context"
	"time"
)

// WakeAhead is how far wake-ups look ahead: one comes for a job that is due within
// that time. A job that is enqueued for later than that wakes nobody, so a worker
// that waits looks, and asks [Runner.NextDue], at least this often. Chosen: far below
// the polls that cost anything, and above the delays that people wait out.
const WakeAhead = 10 * time.Second

// Waker is what a [Store] offers that can tell a waiting worker of new jobs, so
// that they start in milliseconds. Nothing depends on it: a worker asks at each
// poll as well, and a wake-up that is lost costs no more than that wait.
type Waker interface {
	// Watch begins to watch for jobs of queues on behalf of worker, which is the
	// name of the lease's holder. It asks nothing of the database before the
	// first call of Waiting. The caller closes the Watch.
	Watch(worker string, queues []string) Watch
}

// Watch tells one worker when to look for jobs. Its methods are safe for
// concurrent use.
type Watch interface {
	// Wakes has a value whenever jobs may have come, or may have come unheard; also
	// when what Waiting said about heard has changed. Wake-ups that nobody has taken
	// merge into one, so whoever takes one looks for jobs after that. They come for
	// jobs of any kind, and only to a worker that waits. A second one may follow
	// shortly after the first, for what was committed late. Where several workers
	// wait for one queue, the store spreads their wake-ups by some milliseconds.
	Wakes() <-chan struct{}
	// Waiting says that the worker is about to wait. When it has returned, those
	// who enqueue know, so that a claim that begins afterwards finds whatever was
	// enqueued without a wake-up: what is committed at that time. It is cheap
	// when the worker is known to wait already. heard is false when wake-ups
	// cannot be relied on at the moment, and the worker has to poll: so it is at
	// first, where it takes time to find out. With an error heard is false.
	Waiting(ctx context.Context) (heard bool, err error)
	// Busy says that the worker has found jobs, and that wake-ups are of no use
	// until it calls Waiting again. It returns at once. Those who enqueue may learn
	// it a little later, so that a Waiting that follows soon costs nothing.
	Busy()
	// Close ends it, and waits until nothing of it runs any more. No value comes
	// after it. A second call does nothing.
	Close()
}
