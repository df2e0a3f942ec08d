package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/later-queue/later"
)

// deadFilter takes the parameters 1 to 7: queue, kind, tenant, ids as JSON,
// before, part of the error, reason; null selects all.
const deadFilter = `(?1 is null or queue = ?1)
  and (?2 is null or kind = ?2)
  and (?3 is null or tenant = ?3)
  and (?4 is null or id in (select value from json_each(?4)))
  and (?5 is null or id < ?5)
  and (?6 is null or instr(coalesce(error, ''), ?6) > 0)
  and (?7 is null or reason = ?7)`

var (
	// Parameters: now, state, queue, kind, tenant, ids as JSON, before, limit,
	// without payload; null selects all.
	selectJobs = `
select ` + listed(jobColumns) + `, ` + keyColumns + `, ` + jobState + `
from later_job
where (?2 is null or ?2 = ` + jobState + `)
  and (?3 is null or queue = ?3)
  and (?4 is null or kind = ?4)
  and (?5 is null or tenant = ?5)
  and (?6 is null or id in (select value from json_each(?6)))
  and (?7 is null or id < ?7)
order by id desc
limit ?8`

	selectDeadJobs = `
select ` + listed(deadColumns) + `
from later_dead_job
where ` + deadFilter + `
order by id desc
limit ?8`
)

// listed are columns without the two that can be large, if ?9 says so.
func listed(columns string) string {
	return strings.NewReplacer(
		" payload", " case when not ?9 then payload end",
		" checkpoint", " case when not ?9 then checkpoint end",
	).Replace(columns)
}

// List implements [later.Operator].
func (s *Store) List(ctx context.Context, f later.Filter) ([]*later.JobInfo, error) {
	var list []*later.JobInfo
	err := s.snapshot(ctx, func(r reader) error {
		now, err := now(r)
		if err != nil {
			return err
		}
		if f.State != later.StateDead && f.ErrorLike == "" && f.Reason == "" {
			rows, err := r.query(selectJobs, now, orNull(string(f.State)), orNull(f.Queue), orNull(f.Kind), f.Tenant, idsOrNull(f.IDs), beforeOrNull(f.Before), limitOf(f), f.NoPayload)
			if err != nil {
				return err
			}
			if list, err = scanAll(rows, now, list, scanJob); err != nil {
				return err
			}
		}
		if f.State == "" || f.State == later.StateDead {
			rows, err := r.query(selectDeadJobs, append(deadArgs(f), limitOf(f), f.NoPayload)...)
			if err != nil {
				return err
			}
			if list, err = scanAll(rows, now, list, scanDead); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", explain(err))
	}
	slices.SortFunc(list, func(a, b *later.JobInfo) int { return cmp.Compare(b.ID, a.ID) })
	return list[:min(len(list), limitOf(f))], nil
}

func scanAll(rows *sql.Rows, now int64, list []*later.JobInfo, scan func(scanner, int64) (*later.JobInfo, error)) ([]*later.JobInfo, error) {
	defer rows.Close()
	for rows.Next() {
		info, err := scan(rows, now)
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, rows.Err()
}

// deadArgs are the parameters of deadFilter.
func deadArgs(f later.Filter) []any {
	return []any{orNull(f.Queue), orNull(f.Kind), f.Tenant, idsOrNull(f.IDs), beforeOrNull(f.Before), orNull(f.ErrorLike), orNull(string(f.Reason))}
}

func limitOf(f later.Filter) int {
	if f.Limit <= 0 {
		return later.DefaultListLimit
	}
	return f.Limit
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func beforeOrNull(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

func idsOrNull(ids []int64) any {
	if len(ids) == 0 {
		return nil
	}
	text, _ := json.Marshal(ids) // numbers always encode
	return string(text)
}
