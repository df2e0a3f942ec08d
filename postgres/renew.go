package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// renewLeases passes over a row that somebody has locked, and calls it neither
// renewed nor lost: most likely its handler is settling it in a transaction of its
// own (DoneTx), and waiting for that would let the other leases end. The same goes
// for one that changed hands after the statement began; the next renewal sees it.
const renewLeases = `
with held as materialized (
  select j.id
  from {schema}.job j
  where ` + heldBy + `
  for update skip locked
),
renewed as (
  update {schema}.job j
  set lease_until = now() + $3::bigint * interval '1 microsecond'
  where j.id = any(array(select id from held))
)
select j.id, j.lease_token, j.cancel_at is not null, j.id = any(array(select id from held))
from {schema}.job j
where ` + heldBy

// Renew implements [later.Runner].
func (s *Store) Renew(ctx context.Context, leases []later.Lease, d time.Duration) (later.Renewed, error) {
	type row struct {
		ID, Token          int64
		Cancelled, Renewed bool
	}
	found := make(map[later.Lease]row, len(leases))
	for ids, tokens := range distinctJobs(leases) {
		rows, err := query(ctx, s, statement{
			name: fmt.Sprintf("renew %d leases", len(ids)), sql: renewLeases, args: []any{ids, tokens, micros(d)},
		}, pgx.RowToStructByPos[row])
		if err != nil {
			return later.Renewed{}, err
		}
		for _, r := range rows {
			found[later.Lease{ID: r.ID, Token: r.Token}] = r
		}
	}
	var renewed later.Renewed
	for _, l := range leases {
		r, held := found[l]
		if !held {
			renewed.Lost = append(renewed.Lost, l)
			continue
		}
		if !r.Renewed {
			renewed.Passed = append(renewed.Passed, l)
		}
		if r.Cancelled {
			renewed.Cancelled = append(renewed.Cancelled, l)
		}
	}
	return renewed, nil
}

// cancelRequests finds the rows by their ids before it asks for cancel_at: with the
// condition beside them, the sweep's index job_cancelled would fit as well.
const cancelRequests = `
with mine as materialized (
  select j.id, j.lease_token, j.cancel_at
  from {schema}.job j
  where ` + heldBy + `
)
select id, lease_token
from mine
where cancel_at is not null`

// CancelRequests implements [later.Runner].
func (s *Store) CancelRequests(ctx context.Context, leases []later.Lease) ([]later.Lease, error) {
	var wanted []later.Lease
	for ids, tokens := range distinctJobs(leases) {
		found, err := query(ctx, s, statement{
			name: fmt.Sprintf("cancel requests of %d leases", len(ids)), sql: cancelRequests, args: []any{ids, tokens},
		}, pgx.RowToStructByPos[later.Lease])
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, found...)
	}
	return wanted, nil
}

const saveCheckpoint = `
update {schema}.job
set checkpoint = $3::text::json
where id = $1 and lease_token = $2
returning id`

// Checkpoint implements [later.Runner].
func (s *Store) Checkpoint(ctx context.Context, lease later.Lease, data json.RawMessage) error {
	name := fmt.Sprintf("checkpoint of job %d", lease.ID)
	var text *string
	if data != nil {
		t := string(data)
		text = &t
	}
	saved, err := query(ctx, s, statement{
		name: name, sql: saveCheckpoint, args: []any{lease.ID, lease.Token, text},
	}, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	if len(saved) == 0 {
		return fmt.Errorf("%s: %w", name, later.ErrLeaseLost)
	}
	return nil
}

// distinctJobs yields leases as arrays for [heldBy]: sorted, and no job twice in
// one. A process that lost a job and claimed it again has two leases of it, so
// there may be a second array, nearly empty.
func distinctJobs(leases []later.Lease) iter.Seq2[[]int64, []int64] {
	return func(yield func(ids, tokens []int64) bool) {
		rest := slices.SortedStableFunc(slices.Values(leases), func(a, b later.Lease) int { return cmp.Compare(a.ID, b.ID) })
		for len(rest) > 0 {
			var again []later.Lease
			ids, tokens := make([]int64, 0, len(rest)), make([]int64, 0, len(rest))
			for _, l := range rest {
				if len(ids) > 0 && ids[len(ids)-1] == l.ID {
					again = append(again, l)
					continue
				}
				ids, tokens = append(ids, l.ID), append(tokens, l.Token)
			}
			if !yield(ids, tokens) {
				return
			}
			rest = again
		}
	}
}
