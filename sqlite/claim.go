package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/turns"
)

// Claim implements [later.Runner].
func (s *Store) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	if len(req.Queues) == 0 || len(req.Kinds) == 0 || req.Limit <= 0 {
		return nil, nil
	}
	unknown := s.unanswered.unknown(req.Unanswered)
	var claimed []*later.Claimed
	err := s.writer.do(ctx, req.Limit, func(tx *writeTx) error {
		claimed = nil
		now, err := tx.now()
		if err != nil {
			return err
		}
		if err := giveBack(tx, unknown); err != nil {
			return err
		}
		paused, err := pausesOf(tx)
		if err != nil {
			return err
		}
		kinds, err := json.Marshal(paused.open(later.ScopeKind, req.Kinds))
		if err != nil {
			return err
		}
		taking := taking{now: now, worker: req.Worker, token: req.Token, until: after(now, req.Lease)}
		for _, q := range req.Queues {
			if slices.Contains(paused[later.ScopeQueue], q.Queue) {
				continue
			}
			rows, err := s.claimable(tx, q.Queue, string(kinds), paused[later.ScopeTenant], min(q.Limit, req.Limit-len(claimed)), now)
			if err != nil {
				return err
			}
			taken, err := s.takeAll(tx, rows, taking)
			if err != nil {
				return err
			}
			claimed = append(claimed, taken...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	s.unanswered.settled(unknown)
	queues := make([]string, len(req.Queues))
	for i, q := range req.Queues {
		queues[i] = q.Queue
	}
	turns.Sort(claimed, queues, turns.Order{FromLowest: req.FromLowest})
	return claimed, nil
}

// unanswered remembers for which tokens the table has been searched. Once is enough: a
// claim of this store that has returned has been committed or never will be.
type unanswered struct {
	mu       sync.Mutex
	searched map[int64]bool
}

// unknown are those of tokens that are to be searched for.
func (u *unanswered) unknown(tokens []int64) []int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(tokens), func(token int64) bool { return u.searched[token] })
}

// settled notes that tokens have been searched for.
func (u *unanswered) settled(tokens []int64) {
	if len(tokens) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.searched == nil || len(u.searched) > 10_000 { // far more than fail within a lease
		u.searched = map[int64]bool{}
	}
	for _, token := range tokens {
		u.searched[token] = true
	}
}

// updateGivenBack takes back what claims did whose answer was lost. It reads the
// whole table, once for each such claim.
//
// Parameters: tokens as JSON.
const updateGivenBack = `
update later_job
set attempt = max(min(attempt, 2147483647) - (max_attempts > 1 or crashes = 0), 0),
  lease_until = null, lease_token = null, lease_holder = null, claimed_at = null
where lease_token in (select value from json_each(?))`

// giveBack frees the jobs that are leased with one of tokens.
func giveBack(tx transaction, tokens []int64) error {
	if len(tokens) == 0 {
		return nil
	}
	list, err := json.Marshal(tokens)
	if err != nil {
		return err
	}
	_, err = tx.exec(updateGivenBack, string(list))
	return err
}
