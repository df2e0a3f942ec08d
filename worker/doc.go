// Package worker runs jobs: it claims them from a [later.Store], calls their
// handlers, keeps their leases alive, and settles them.
//
// What it guarantees:
//
//   - Every claimed job ends in one of these ways. Its outcome is stored. Or
//     the store refuses it because the lease was lost, which is logged and
//     counted. Or its handler does not return although its lease was lost,
//     which is logged and counted too. Or the run ends before the outcome could
//     be stored, and a [DrainError] names the job. Or the process dies. After
//     each of the last three the job is claimed again when its lease ends.
//   - A job counts as done only when its settle has been committed. Results
//     outlive a database that goes away: they are kept in memory and settled
//     when it is back.
//   - A handler's context ends with a cause: [later.ErrTimeout],
//     [later.ErrLeaseLost], [later.ErrCancelled] or [later.ErrShutdown]. It does
//     not end when Run's context is cancelled: that only stops claiming.
//   - Nothing of a store's is held while a handler runs: no transaction, no
//     connection, no lock.
//   - After Run, Stop or Drain have returned, no goroutine of this package is
//     left, but for handlers and hooks that ignore their ended context, and
//     for a call of the store that ignores its own: that one is waited for a
//     moment only, and then ends by itself.
//
// A job may wait in the worker for a slot, under a lease that is renewed, if it
// is measured to get one soon (see [Config.Concurrency]). Its timeout begins when
// its handler is called. It is not called if the job expires, is cancelled, or
// loses its lease before; and when the worker is stopped, such jobs are given
// back at once without being charged an attempt.
//
// Handlers run in goroutines that take one job after the other: what a handler
// does to its goroutine (runtime.LockOSThread, profiler labels) it undoes itself.
//
// A handler that ignores its context cannot be ended. When it still runs
// [Config.Grace] after its context ended, it is abandoned: its attempt is
// settled without it, its late result is ignored, and its slot stays taken
// until it returns. When abandoned handlers hold all slots, Run returns
// [ErrStuck], so that whatever supervises the process can restart it.
package worker
