package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
)

// insertUnique calls the function for each job, in the order of the text's array. It
// is one text for every driver, as in [insertText].
const insertUnique = `
select r.nr, u.id, coalesce(u.holder, ''), u.replaced, u.postponed
from json_to_recordset($1::text::json) as r (
  nr integer, queue text, priority integer, tenant text, kind text, payload text,
  delay_us bigint, run_at timestamptz, max_attempts integer, timeout_ms bigint,
  expires_in_us bigint, expires_at timestamptz, headers text,
  unique_key text, unique_until text, window_ms bigint, sliding boolean, on_conflict text, latest_ms bigint)
cross join lateral {schema}.enqueue_unique(
  r.kind, r.payload::json, r.queue, r.priority, r.tenant,
  greatest(now(), coalesce(r.run_at, now() + r.delay_us * interval '1 microsecond')),
  r.max_attempts, r.timeout_ms,
  coalesce(r.expires_at, now() + r.expires_in_us * interval '1 microsecond'), r.headers::json,
  r.unique_key, r.unique_until, r.window_ms * interval '1 millisecond', r.sliding,
  r.on_conflict, r.latest_ms * interval '1 millisecond') as u`

// uniqueRow is a job with a key on its way into the table.
type uniqueRow struct {
	Nr int `json:"nr"` // its place in the call
	newRow
	Key        string `json:"unique_key"`
	Until      string `json:"unique_until"`
	WindowMS   *int64 `json:"window_ms"`
	Sliding    bool   `json:"sliding"`
	OnConflict string `json:"on_conflict"`
	LatestMS   *int64 `json:"latest_ms"`
}

func (r *uniqueRow) set(nr int, job *later.NewJob) error {
	u := job.Unique
	r.Nr, r.Key, r.Until, r.Sliding, r.OnConflict = nr, u.Key, u.Until.String(), u.Sliding, u.OnConflict.String()
	if ms := u.Window.Milliseconds(); ms > 0 {
		r.WindowMS = &ms
	}
	if ms := u.Latest.Milliseconds(); ms > 0 {
		r.LatestMS = &ms
	}
	return r.newRow.set(job)
}

func hasKey(job later.NewJob) bool   { return job.Unique != nil }
func hasNoKey(job later.NewJob) bool { return job.Unique == nil }

// inserted is what became of the job at a place.
type inserted struct {
	nr                  int
	id                  int64
	holder              string
	replaced, postponed bool
}

func (i *inserted) dest() []any {
	return []any{&i.nr, &i.id, &i.holder, &i.replaced, &i.postponed}
}

func (i *inserted) enqueued() later.Enqueued {
	done := later.Enqueued{ID: i.id, Holder: later.State(i.holder)}
	if i.holder != "" {
		done.Outcome = later.ChangedOutcome(i.replaced, i.postponed)
	}
	return done
}

// insertWith inserts jobs of which some have keys: first those that have none, with
// plain, and then the others. These are taken in the order of their keys, so that two calls
// with the same keys wait for each other in one order, and neither for both.
func insertWith(jobs []later.NewJob, plain func([]later.NewJob) ([]later.Enqueued, error),
	unique func(text string, each func(inserted)) error) ([]later.Enqueued, error) {
	var without []later.NewJob
	var places []int
	var rows []uniqueRow
	for i := range jobs {
		if jobs[i].Unique == nil {
			without, places = append(without, jobs[i]), append(places, i)
			continue
		}
		var r uniqueRow
		if err := r.set(i, &jobs[i]); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	done := make([]later.Enqueued, len(jobs))
	if len(without) > 0 {
		stored, err := plain(without)
		if err != nil {
			return nil, err
		}
		for i, one := range stored {
			done[places[i]] = one
		}
	}
	slices.SortStableFunc(rows, func(a, b uniqueRow) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key))
	})
	for len(rows) > 0 {
		n := chunkOfRows(rows)
		text, err := jsonText(rows[:n])
		if err != nil {
			return nil, err
		}
		if err := unique(text, func(i inserted) { done[i.nr] = i.enqueued() }); err != nil {
			return nil, err
		}
		rows = rows[n:]
	}
	return done, nil
}

// chunkOfRows is chunkOf for jobs with keys.
func chunkOfRows(rows []uniqueRow) int {
	size := 0
	for n := range rows {
		size += rows[n].size()
		if n == maxChunkJobs || n > 0 && size > maxChunkBytes {
			return n
		}
	}
	return len(rows)
}

// insertMixed inserts jobs of which some have keys, in a transaction of pgx, or in one
// statement on a connection.
func (s *Store) insertMixed(ctx context.Context, db queryer, jobs []later.NewJob) ([]later.Enqueued, error) {
	return insertWith(jobs,
		func(plain []later.NewJob) ([]later.Enqueued, error) { return s.insertJobs(ctx, db, plain) },
		func(text string, each func(inserted)) error {
			rows, err := db.Query(ctx, s.sql(insertUnique), text)
			if err != nil {
				return err
			}
			var one inserted
			_, err = pgx.ForEachRow(rows, one.dest(), func() error { each(one); return nil })
			return err
		})
}

// insertMixedSQL is insertMixed in a transaction of database/sql.
func (s *Store) insertMixedSQL(ctx context.Context, tx *sql.Tx, jobs []later.NewJob) ([]later.Enqueued, error) {
	return insertWith(jobs,
		func(plain []later.NewJob) ([]later.Enqueued, error) { return s.insertSQLTx(ctx, tx, plain) },
		func(text string, each func(inserted)) (err error) {
			rows, err := tx.QueryContext(ctx, s.sql(insertUnique), text)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, rows.Close()) }()
			for rows.Next() {
				var one inserted
				if err := rows.Scan(one.dest()...); err != nil {
					return err
				}
				each(one)
			}
			return rows.Err()
		})
}

// insertApart inserts jobs of which some have keys, in a transaction of its own: it may
// have to wait for somebody's key, which the jobs of other callers must not. It is read
// committed, whatever the session's default, so that it sees who has come first. What the
// server undid for the sake of another transaction is tried again; not what waited for a
// lock as long as the session lets it.
func (s *Store) insertApart(ctx context.Context, jobs []later.NewJob) (done []later.Enqueued, err error) {
	insert := s.insertInTx
	if len(jobs) <= maxChunkJobs && chunkOf(jobs) == len(jobs) && !slices.ContainsFunc(jobs, hasNoKey) {
		insert = s.insertAtOnce
	}
	for try := 1; ; try++ {
		if done, err = insert(ctx, jobs); err == nil {
			return done, nil
		}
		if !hasCode(err, "40001", "40P01") || try == maxTries || !pause(ctx, retryDelay<<(try-1)) {
			return nil, s.classify(err)
		}
	}
}

// insertAtOnce is insertApart in one round trip.
func (s *Store) insertAtOnce(ctx context.Context, jobs []later.NewJob) ([]later.Enqueued, error) {
	pool, err := s.appPool()
	if err != nil {
		return nil, err
	}
	return insertWith(jobs, nil, func(text string, each func(inserted)) error {
		rows, err := queryOnce(ctx, s, pool, statement{sql: insertUnique, args: []any{text}, plain: true},
			func(row pgx.CollectableRow) (one inserted, err error) { return one, row.Scan(one.dest()...) })
		for _, one := range rows {
			each(one)
		}
		return err
	})
}

func (s *Store) insertInTx(ctx context.Context, jobs []later.NewJob) (done []later.Enqueued, err error) {
	pool, err := s.appPool()
	if err != nil {
		return nil, err
	}
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			done, err = s.insertMixed(ctx, tx, jobs)
			return err
		})
		s.leave(ctx, conn, err)
		return err
	})
	return done, err
}

// selectKeyHolders are the dead jobs that a filter selects and whose keys others hold,
// the lowest id first. Parameters: those of deadFilter.
const selectKeyHolders = `
select j.id, j.unique_key, w.id, (count(*) over ())::int
from {schema}.dead_job j
join {schema}.job w on w.tenant = j.tenant and w.kind = j.kind and w.unique_key = j.unique_key
where $1 in ('', 'dead')
  and ` + deadFilter + `
order by j.id
limit least($9::bigint, 1)`

// keyHeld says which of the dead jobs that f selects cannot come back, because others
// hold their keys; nil when there are none.
func (s *Store) keyHeld(ctx context.Context, f later.Filter) (*later.KeyHeldError, error) {
	f.State = later.StateDead
	held, err := query(ctx, s, statement{name: "find the holders of keys", sql: selectKeyHolders, args: filterArgs(f), plain: true},
		func(row pgx.CollectableRow) (*later.KeyHeldError, error) {
			var e later.KeyHeldError
			err := row.Scan(&e.Job, &e.Key, &e.Holder, &e.Count)
			return &e, err
		})
	if err != nil || len(held) == 0 {
		return nil, err
	}
	return held[0], nil
}
