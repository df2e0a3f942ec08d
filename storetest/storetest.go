// Package storetest is the contract of [later.Store] as a test suite: each
// subtest is one sentence of it. A store that passes [Run] is right; one whose
// callers can enqueue and settle in their own transactions passes [RunTx] too,
// and one whose rows people can edit in SQL passes [RunByHand].
//
// The suite knows no clock but the store's: it never asserts that something
// happened within a time, it waits until the store itself says that a lease or
// an expiry has ended.
//
// The invariants that the subtests prove are named in their comments:
//
//	kept       a job that was enqueued is never lost: it leaves the store only
//	           as done, cancelled, expired, deleted, or dead
//	exact      what was enqueued is what the handler gets, byte for byte
//	fenced     a result is only accepted from whoever holds the lease
//	alone      two claims never hold one job while its lease holds
//	counted    attempts, crashes and generations are right
//	found      a job that may be taken is found, whatever surrounds it
//	fair       no tenant waits for another's jobs
//	held       what is paused does not start
//	shown      what people see is what is stored
//	woken      who waits for a job learns that it is there
package storetest

import (
	"slices"
	"testing"

	"github.com/later-queue/later"
)

// Open returns a new, empty store, whose schema is up to date, and leaves its
// end to t.Cleanup. The suite may close the store before.
type Open func(t *testing.T) later.Store

// Run runs the suite on the stores that open returns. The log of finished
// attempts must be on.
//
// A store may remember how far its claims have got and begin there. Jobs that
// come in behind that (given back, lost, committed late) it finds not with the
// next claim but soon; so the suite claims them until they come.
//
// A store wakes workers that wait, as a [later.Waker], unless lacks says otherwise.
func Run(t *testing.T, open func(t *testing.T) later.Store, lacks ...Lack) {
	parts := slices.Clone(parts)
	switch {
	case slices.Contains(lacks, LackWaker):
	case slices.Contains(lacks, LackHearing):
		parts = append(parts, part{"deaf", testDeaf})
	default:
		parts = append(parts, part{"wake", testWake})
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(t, open) })
	}
}

type part struct {
	name string
	run  func(t *testing.T, open Open)
}

// parts is the contract, a file for each.
var parts = []part{
	{"insert", testInsert},
	{"payload", testPayload},
	{"names", testNames},
	{"claim", testClaim},
	{"order", testOrder},
	{"turns", testTurns},
	{"pause", testPause},
	{"fencing", testFencing},
	{"renew", testRenew},
	{"settle", testSettle},
	{"crash", testCrash},
	{"sweep", testSweep},
	{"operator", testOperator},
	{"dead", testDead},
	{"list", testList},
	{"options", testOptions},
	{"unique", testUnique},
	{"unique table", testUniqueTable},
	{"unique race", testUniqueRace},
	{"unique model", testUniqueModel},
	{"due", testDue},
	{"workers", testWorkers},
	{"maintain", testMaintain},
	{"close", testClose},
	{"concurrency", testConcurrency},
	{"model", testModel},
}
