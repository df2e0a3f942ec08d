package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// renewLeases passes over a row that somebody has locked, and does not call it
// lost: most likely its handler is settling it in a transaction of its own
// (DoneTx), and waiting for that would let the other leases end.
const renewLeases = `
with held as materialized (
  select j.id
  from unnest($1::bigint[], $2::bigint[]) as i (id, token)
  join {schema}.job j on j.id = i.id and j.lease_token = i.token
  order by j.id
  for update of j skip locked
),
renewed as (
  update {schema}.job j
  set lease_until = now() + $3::bigint * interval '1 microsecond'
  from held
  where j.id = held.id
)
select j.id, j.lease_token, j.cancel_at is not null
from unnest($1::bigint[], $2::bigint[]) as i (id, token)
join {schema}.job j on j.id = i.id and j.lease_token = i.token`

// Renew implements [later.Worker].
func (s *Store) Renew(ctx context.Context, leases []later.Lease, d time.Duration) (later.Renewed, error) {
	if len(leases) == 0 {
		return later.Renewed{}, nil
	}
	ids, tokens := leaseArrays(leases)
	type row struct {
		ID, Token int64
		Cancelled bool
	}
	rows, err := query(ctx, s, statement{
		name: fmt.Sprintf("renew %d leases", len(leases)), sql: renewLeases, args: []any{ids, tokens, micros(d)},
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return later.Renewed{}, err
	}
	cancelled := make(map[later.Lease]bool, len(rows))
	for _, r := range rows {
		cancelled[later.Lease{ID: r.ID, Token: r.Token}] = r.Cancelled
	}
	var renewed later.Renewed
	for _, l := range leases {
		wanted, held := cancelled[l]
		switch {
		case !held:
			renewed.Lost = append(renewed.Lost, l)
		case wanted:
			renewed.Cancelled = append(renewed.Cancelled, l)
		}
	}
	return renewed, nil
}

const cancelRequests = `
select j.id, j.lease_token
from unnest($1::bigint[], $2::bigint[]) as i (id, token)
join {schema}.job j on j.id = i.id and j.lease_token = i.token
where j.cancel_at is not null`

// CancelRequests implements [later.Worker].
func (s *Store) CancelRequests(ctx context.Context, leases []later.Lease) ([]later.Lease, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	ids, tokens := leaseArrays(leases)
	return query(ctx, s, statement{
		name: fmt.Sprintf("cancel requests of %d leases", len(leases)), sql: cancelRequests, args: []any{ids, tokens},
	}, pgx.RowToStructByPos[later.Lease])
}

const saveCheckpoint = `
update {schema}.job
set checkpoint = $3::text::json
where id = $1 and lease_token = $2
returning id`

// Checkpoint implements [later.Worker].
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

// leaseArrays are leases in the order of their ids, which is the order in which
// every statement locks.
func leaseArrays(leases []later.Lease) (ids, tokens []int64) {
	sorted := slices.SortedFunc(slices.Values(leases), func(a, b later.Lease) int { return cmp.Compare(a.ID, b.ID) })
	for _, l := range sorted {
		ids, tokens = append(ids, l.ID), append(tokens, l.Token)
	}
	return ids, tokens
}
