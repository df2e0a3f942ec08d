package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/later-queue/later"
)

const updateRenewed = `
update later_job
set lease_until = ?
where id = ? and lease_token = ?
returning cancel_at is not null`

// Renew implements [later.Runner].
func (s *Store) Renew(ctx context.Context, leases []later.Lease, d time.Duration) (later.Renewed, error) {
	var result later.Renewed
	if len(leases) == 0 {
		return result, nil
	}
	err := s.writer.do(ctx, len(leases), func(tx *writeTx) error {
		result = later.Renewed{}
		now, err := tx.now()
		if err != nil {
			return err
		}
		until := after(now, d)
		for _, lease := range leases {
			var cancelled bool
			err := tx.queryRow(updateRenewed, until, lease.ID, lease.Token).Scan(&cancelled)
			switch {
			case errors.Is(err, sql.ErrNoRows):
				result.Lost = append(result.Lost, lease)
			case err != nil:
				return err
			case cancelled:
				result.Cancelled = append(result.Cancelled, lease)
			}
		}
		return nil
	})
	if err != nil {
		return later.Renewed{}, fmt.Errorf("renew: %w", err)
	}
	return result, nil
}

const selectCancelRequests = `
select id, lease_token
from later_job indexed by later_job_cancelled
where cancel_at is not null and lease_token is not null`

// CancelRequests implements [later.Runner]. It reads the jobs that are to be
// cancelled and still run, of all workers: as a rule there are none.
func (s *Store) CancelRequests(ctx context.Context, leases []later.Lease) ([]later.Lease, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	rows, err := s.reader(ctx).query(selectCancelRequests)
	if err != nil {
		return nil, fmt.Errorf("cancel requests: %w", explain(err))
	}
	defer rows.Close()
	wanted := map[later.Lease]bool{}
	for rows.Next() {
		var lease later.Lease
		if err := rows.Scan(&lease.ID, &lease.Token); err != nil {
			return nil, fmt.Errorf("cancel requests: %w", explain(err))
		}
		wanted[lease] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("cancel requests: %w", explain(err))
	}
	var cancelled []later.Lease
	for _, lease := range leases {
		if wanted[lease] {
			cancelled = append(cancelled, lease)
		}
	}
	return cancelled, nil
}

const updateCheckpoint = `
update later_job
set checkpoint = ?
where id = ? and lease_token = ?`

// Checkpoint implements [later.Runner].
func (s *Store) Checkpoint(ctx context.Context, lease later.Lease, data json.RawMessage) error {
	err := s.writer.do(ctx, 1, func(tx *writeTx) error {
		text := sql.NullString{String: string(data), Valid: data != nil}
		return changed(tx.exec(updateCheckpoint, text, lease.ID, lease.Token))
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// changed is ErrLeaseLost when a statement that is fenced by a lease found no
// row.
func changed(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = later.ErrLeaseLost
	}
	return err
}
