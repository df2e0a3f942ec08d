// Package later runs background jobs from a table in the database that an
// application already has.
//
// This package is the domain: what a job is ([Record], [Job]), how one is
// enqueued ([Client], [Options]), what a handler is and what it may answer
// ([Handlers], [Permanent], [RetryAfter], [Snooze]), and the contract that a
// database keeps ([Store], [Operator]). It knows no database and runs nothing:
//
//   - package worker claims jobs and runs their handlers;
//   - packages postgres, sqlite and memory are the stores;
//   - package storetest is the contract as a test suite.
//
// The guarantees, in order: a job that was enqueued is never lost; a result is
// only accepted from whoever holds the job's lease; a job may start more than
// once, so a handler is idempotent or settles its job in its own transaction
// (the stores' DoneTx).
package later
