package sqlite

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// What programs built for version 1 of the tables ask, word for word: they may
// still run beside this one.
const (
	selectLanes1 = `
with recursive lane (kind, priority) as (
  select wanted.value, (
    select j.priority
    from later_job j indexed by later_job_ready
    where j.queue = ?1 and j.kind = wanted.value
    order by j.priority
    limit 1)
  from json_each(?2) wanted
  union
  select lane.kind, (
    select j.priority
    from later_job j indexed by later_job_ready
    where j.queue = ?1 and j.kind = lane.kind and j.priority > lane.priority
    order by j.priority
    limit 1)
  from lane
  where lane.priority is not null
)
select lane.priority, lane.kind
from lane
where lane.priority is not null
  and exists (
    select 1
    from later_job j indexed by later_job_ready
    where j.queue = ?1 and j.kind = lane.kind and j.priority = lane.priority and j.run_at <= ?3)
order by lane.priority, lane.kind`

	selectClaimable1 = `
select id
from later_job indexed by later_job_ready
where queue = ?1 and kind = ?2 and priority = ?3
  and run_at <= ?4 and run_at >= ?5
  and (run_at > ?5 or id > ?6)
  and cancel_at is null
  and (expires_at is null or expires_at > ?4)
  and (lease_until is null or lease_until < ?4)
  and crashes + (lease_until is not null) < ?8
order by run_at, id
limit ?7`

	selectNextDue1 = `
with recursive clock (now) as materialized (
  select cast(round((julianday('now') - 2440587.5) * 86400000) as integer)
),
lane (queue, kind, priority) as (
  select q.value, k.value, (
    select j.priority
    from later_job j indexed by later_job_ready
    where j.queue = q.value and j.kind = k.value
    order by j.priority
    limit 1)
  from json_each(?1) q, json_each(?2) k
  union
  select lane.queue, lane.kind, (
    select j.priority
    from later_job j indexed by later_job_ready
    where j.queue = lane.queue and j.kind = lane.kind and j.priority > lane.priority
    order by j.priority
    limit 1)
  from lane
  where lane.priority is not null
)
select min((
  select j.run_at
  from later_job j indexed by later_job_ready
  where j.queue = lane.queue and j.kind = lane.kind and j.priority = lane.priority and j.run_at > clock.now
  order by j.run_at
  limit 1)) - clock.now
from clock
cross join lane
where lane.priority is not null`
)

// Case 229: old and new programs on one file.
func TestVersion1FindsItsJobs(t *testing.T) {
	s := openMemory(t)
	_, err := s.DB().ExecContext(t.Context(), `
with recursive n (i) as (select 0 union all select i + 1 from n where i < 299)
insert into later_job (kind, priority, tenant, run_at, payload)
select 'kind-' || (i * 7 % 3), i * 5 % 4, 'tenant-' || (i * 11 % 7), case when i * 5 % 4 = 3 then 2840140800000 + i else 1000 + i * 31 % 40 end, '{}'
from n`)
	if err != nil {
		t.Fatal(err)
	}
	const now = 10_000
	var lanes, wantLanes []string
	onWriter(t, s, func(tx *writeTx) error {
		rows, err := tx.query(selectLanes1, later.DefaultQueue, `["kind-0","kind-1","none","kind-2"]`, now)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var priority int64
			var kind string
			if err := rows.Scan(&priority, &kind); err != nil {
				return err
			}
			lanes = append(lanes, fmt.Sprint(priority, kind))
		}
		return rows.Err()
	})
	for priority := range 3 {
		for kind := range 3 {
			wantLanes = append(wantLanes, fmt.Sprint(priority, fmt.Sprintf("kind-%d", kind)))
			want := queryIDs(t, s, fmt.Sprintf(`
select id from later_job where kind = 'kind-%d' and priority = %d order by run_at, id limit 10`, kind, priority))
			var got []int64
			onWriter(t, s, func(tx *writeTx) (err error) {
				got, err = readIDs(tx, selectClaimable1, later.DefaultQueue, fmt.Sprintf("kind-%d", kind), priority, now,
					int64(math.MinInt64), 0, 10, later.SuspectCrashes)
				return err
			})
			if fmt.Sprint(got) != fmt.Sprint(want) || len(got) != 10 {
				t.Errorf("priority %d, kind %d: got %v, want %v", priority, kind, got, want)
			}
		}
	}
	if fmt.Sprint(lanes) != fmt.Sprint(wantLanes) {
		t.Errorf("lanes: got %v, want %v", lanes, wantLanes)
	}
	in, ok, err := s.NextDue(t.Context(), []string{later.DefaultQueue}, []string{"kind-0", "kind-1", "kind-2"})
	if err != nil || !ok {
		t.Fatalf("NextDue: %v, %v", ok, err)
	}
	var ms int64
	onWriter(t, s, func(tx *writeTx) error {
		return tx.queryRow(selectNextDue1, `["default"]`, `["kind-0","kind-1","kind-2"]`).Scan(&ms)
	})
	// The next one is due in 2060.
	if old := time.Duration(ms) * time.Millisecond; (old-in).Abs() > time.Minute || in < 24*365*24*time.Hour {
		t.Errorf("next due: version 1 says %v, and this one %v", old, in)
	}
}
