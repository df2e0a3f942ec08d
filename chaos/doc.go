// Command chaos tries to lose a job. It runs worker processes against a store
// while it kills them (SIGKILL), stops them (SIGSTOP, SIGCONT), drains them
// (SIGTERM) and restarts the database under them, and then checks the recorded
// history against what a job queue promises:
//
//   - every job whose enqueue was acknowledged ended, exactly once;
//   - no result was accepted from a worker that had lost the lease;
//   - no job was claimed while another claim's lease held;
//   - every job that ended as done had its effect, and an effect that shares
//     the transaction of the job's end happened exactly once;
//   - every dead job carries its reasons;
//   - nothing ran that nobody enqueued.
//
// The history has two independent sources: an event log that each worker
// process writes with one write call per event, so that it survives SIGKILL,
// and the store's own tables. The kinds of faults and their order follow from
// --seed; their exact moments depend on the machine.
//
//	go run ./chaos --store postgres --jobs 200000 --kills 200 --restarts 20
//	go run ./chaos --store sqlite --jobs 200000 --kills 200
package main
