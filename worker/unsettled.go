package worker

import (
	"errors"
	"time"

	"github.com/later-queue/later"
)

// patience is how often a settlement that the store refuses is tried as it is:
// for about 3 s, or little over 1 s while draining. Chosen, not measured.
const patience = 5

// unstorable is stored in place of an error that the store does not take.
const unstorable = "failed; its error could not be stored"

// settleFailed puts batch back, so that it is tried again in the right way. It
// returns false when the store seems to be away. The lock is held.
func (r *run) settleFailed(batch []*attempt, err error, hung bool) bool {
	away := worthRetrying(err)
	first := batch[0]
	for _, a := range batch {
		a.ambiguous = a.ambiguous || away && !errors.Is(err, later.ErrFull)
	}
	// A row that a handler's transaction still locks makes its own settle hang
	// and no other.
	locked := hung && first.verdict.inTx
	if away && !locked {
		r.outages.fail("settle", err)
		r.outage = true
	}
	switch {
	case away && !locked && !first.solo:
		r.put(batch...)
		return false
	case away && first.solo:
		r.tryLater(first)
	case len(batch) > 1:
		// One of them is what hangs, or what the store does not take: find out
		// which.
		for _, a := range batch {
			a.solo = true
		}
	case away:
		first.solo = true
		r.tryLater(first)
	default:
		r.fallBack(first, err)
	}
	r.put(batch...)
	return true
}

// tryLater puts off a result that is settled alone. One that hangs for
// inTxBound each time may do so a third of the time at most.
func (r *run) tryLater(a *attempt) {
	a.tries++
	r.endSuspect(a) // this may go on for long
	delay := retryBackoff.Delay(a.tries, nil)
	if a.verdict.inTx {
		delay = max(delay, 2*inTxBound)
	}
	a.retryAt = time.Now().Add(delay)
}

// fallBack tries a settlement alone a few times, since what the store refuses may
// be the moment's fault all the same (rights that are being changed), and then
// takes away from it what the store may not like: its text, then its history.
// The lock is held.
func (r *run) fallBack(a *attempt, err error) {
	a.solo = true
	if a.tries < patience {
		if !a.troubled {
			a.troubled = true
			r.log.Warn("outcome could not be stored, trying again", a.attrs("err", err)...)
		}
		r.tryLater(a)
		return
	}
	s := &a.verdict.settlement
	hasText := s.Error != "" || len(s.Errors) > 0
	switch {
	case a.fallbacks == 0 && hasText:
		r.log.Error("outcome could not be stored, storing it without its text", a.attrs("err", err)...)
		s.Error = unstorable
		if len(s.Errors) > 0 {
			s.Errors = later.AppendError(a.claimed.Errors, later.AttemptError{
				Attempt: a.claimed.Attempt, At: a.now(), Worker: r.id.name, Error: unstorable,
			})
		}
	case a.fallbacks == 1 && len(s.Errors) > 1:
		s.Errors = s.Errors[len(s.Errors)-1:]
	default:
		if !a.givenIn {
			a.givenIn = true
			r.log.Error("outcome could not be stored, trying on", a.attrs("err", err)...)
		}
		r.tryLater(a)
	}
	a.fallbacks++
}
