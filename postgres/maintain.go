package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// daysAhead is how many days of the log have their partition in advance.
	// Chosen: a weekend without any worker.
	daysAhead = 3
	// maintainLock bounds how long housekeeping waits for a table, because
	// whoever comes after it waits behind it. Chosen, not measured.
	maintainLock = 500 * time.Millisecond
	// purgeChunk is how many rows one round deletes.
	purgeChunk = 10_000
	// purgeTime is after how long the rest is left for the next time. Chosen.
	purgeTime = 10 * time.Second
)

// lookMaintain says what there is to do, and takes the lock for it: without it
// nothing is done, because somebody else is at it.
const lookMaintain = `
select pg_try_advisory_xact_lock(hashtextextended($1::text, 0)), now(),
  array(
    select c.relname::text
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass($2))`

// addDay makes a day's partition. Attaching it takes no lock that the writers of
// other days wait for. The default partition is locked, and must have no row of
// that day.
const addDay = `
create table {schema}.%[1]s (like {schema}.job_log including all);
alter table {schema}.%[1]s add constraint day check (finished_at >= '%[2]s' and finished_at < '%[3]s' and finished_at is not null);
alter table {schema}.job_log attach partition {schema}.%[1]s for values from ('%[2]s') to ('%[3]s');
alter table {schema}.%[1]s drop constraint day;`

const (
	dropDay = `drop table {schema}.%s`

	forgetWorkers = `delete from {schema}.worker where seen_at < now() - $1::bigint * interval '1 microsecond'`

	// purgeDefault deletes what came while its day had no partition.
	purgeDefault = `
with purged as (
  delete from {schema}.job_log_default
  where ctid = any(array(
    select ctid
    from {schema}.job_log_default
    where finished_at < now() - $1::bigint * interval '1 microsecond'
    limit $2))
  returning 1
)
select count(*)::int from purged`

	// purgeWindows passes over what somebody is about to begin anew.
	purgeWindows = `
with purged as (
  delete from {schema}.key_window
  where ctid = any(array(
    select ctid
    from {schema}.key_window
    where ends_at <= now()
    order by ends_at
    limit $1
    for update skip locked))
  returning 1
)
select count(*)::int from purged`

	// purgeStates deletes what limits remember that says nothing any more: none of those that
	// were let in is left, and the rate is as if there had been none. What a claim is about to
	// replace is gone for one of both.
	purgeStates = `
with purged as (
  delete from {schema}.gate_state s
  where s.ctid = any(array(
    select s.ctid
    from {schema}.gate_state s
    where (s.tat is null or s.tat <= now())
      and not exists (
        select
        from unnest(s.running) as had (id)
        cross join lateral (
          select from {schema}.job j where j.id = had.id
          union all
          select from {schema}.dead_job d where d.id = had.id
        ) one)
    limit $1))
  returning 1
)
select count(*)::int from purged`
)

var dayPartition = regexp.MustCompile(`^job_log_(\d{8})$`)

const dayLayout = "20060102"

// Maintain implements [later.Runner]: partitions of the log for the next days,
// an end for those past the retention, for keys whose window has ended, for limits
// that remember nothing, and for workers that left without saying so. Where a table is in use, it is left for the
// next time.
func (s *Store) Maintain(ctx context.Context) error {
	if err := s.run(ctx, statement{
		name: "maintain: forget workers", sql: forgetWorkers, args: []any{micros(workerRetention)},
	}); err != nil {
		return err
	}
	if err := s.purge(ctx, statement{name: "maintain: delete old windows", sql: purgeWindows, args: []any{purgeChunk}}); err != nil {
		return err
	}
	if err := s.purge(ctx, statement{name: "maintain: forget what limits remember", sql: purgeStates, args: []any{purgeChunk}}); err != nil {
		return err
	}
	if err := s.purge(ctx, statement{
		name: "maintain: delete old log rows", sql: purgeDefault, args: []any{micros(s.config.LogRetention), purgeChunk},
	}); err != nil {
		return err
	}
	if err := s.maintainDays(ctx); err != nil {
		return fmt.Errorf("maintain: partitions of the log: %w", s.classify(err))
	}
	return nil
}

// purge runs a statement that deletes some rows, until it deletes less than a round.
func (s *Store) purge(ctx context.Context, st statement) error {
	for until := time.Now().Add(purgeTime); time.Now().Before(until); {
		purged, err := query(ctx, s, st, pgx.RowTo[int32])
		if err != nil {
			return err
		}
		if purged[0] < purgeChunk {
			return nil
		}
	}
	return nil
}

func (s *Store) maintainDays(ctx context.Context) error {
	pool, err := s.runtimePool()
	if err != nil {
		return err
	}
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		for {
			var todo string
			err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
				if todo, err = s.nextDayTask(ctx, tx); err != nil || todo == "" {
					return err
				}
				return execScript(ctx, tx, fmt.Sprintf("set local lock_timeout = %d;\nset local time zone 'UTC';\n%s",
					maintainLock.Milliseconds(), s.sql(todo)))
			})
			if err != nil {
				s.leave(ctx, conn, err)
				if isBusy(err) {
					s.log.Debug("log partition left for the next time", "err", err)
					return nil
				}
				return err
			}
			if todo == "" {
				return nil
			}
		}
	})
}

// isBusy reports that a partition has to wait: for a lock, or until the default
// partition no longer has rows of its day; or that somebody else has just made or dropped
// it, who had the lock until after this one had looked.
func isBusy(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{"55P03", "40P01", "23514", "42P07", "42P01"}, pg.Code)
}

// nextDayTask is the next partition to make or to drop, one in each transaction
// so that locks are short; or nothing.
func (s *Store) nextDayTask(ctx context.Context, tx pgx.Tx) (string, error) {
	var mine bool
	var now time.Time
	var names []string
	err := tx.QueryRow(ctx, lookMaintain, "later maintain "+s.name, s.schema+".job_log").Scan(&mine, &now, &names)
	if err != nil || !mine {
		return "", err
	}
	today := now.UTC().Truncate(24 * time.Hour)
	for i := range daysAhead + 1 {
		day := today.AddDate(0, 0, i)
		name := "job_log_" + day.Format(dayLayout)
		if slices.Contains(names, name) {
			continue
		}
		var taken bool
		err := tx.QueryRow(ctx, s.sql(`select exists (
			select from {schema}.job_log_default where finished_at >= $1 and finished_at < $2)`),
			day, day.AddDate(0, 0, 1)).Scan(&taken)
		if err != nil {
			return "", err
		}
		if taken {
			continue // that day stays in the default partition
		}
		const layout = "2006-01-02 15:04:05+00"
		return fmt.Sprintf(addDay, name, day.Format(layout), day.AddDate(0, 0, 1).Format(layout)), nil
	}
	for _, name := range names {
		parts := dayPartition.FindStringSubmatch(name)
		if parts == nil {
			continue
		}
		day, err := time.Parse(dayLayout, parts[1])
		if err == nil && !day.AddDate(0, 0, 1).After(now.Add(-s.config.LogRetention)) {
			return fmt.Sprintf(dropDay, name), nil
		}
	}
	return "", nil
}
