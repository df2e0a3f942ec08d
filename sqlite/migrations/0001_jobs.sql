-- oldest program: 1
--
-- Times are milliseconds since 1970-01-01 00:00:00 UTC. The default expression
-- for "now" works on every SQLite that knows STRICT tables (3.37 and later), so
-- that programs in other languages can insert with their own library.
--
-- A job is one row. Small columns come first and the large ones last: SQLite
-- has to walk through a large payload's pages to reach a column behind it.
--
-- The constraints refuse what no worker could run. They never refuse a job that
-- the Go library has accepted.

create table later_job (
  id            integer primary key autoincrement -- one that was given is never given again
    constraint id_is_under_2_to_53 check (id between 1 and 9007199254740991),
  queue         text    not null default 'default'
    constraint queue_is_a_name check (length(cast(queue as blob)) between 1 and 100
      and queue glob '[A-Za-z0-9_]*' and queue not glob '*[^A-Za-z0-9_.:-]*' and instr(queue, char(0)) = 0),
  priority      integer not null default 0
    constraint priority_is_a_smallint check (priority between -32768 and 32767),
  tenant        text    not null default ''
    constraint tenant_is_printable check (length(cast(tenant as blob)) <= 200 and tenant = trim(tenant)
      and tenant not glob '*[' || char(1) || '-' || char(31) || char(127) || ']*' and instr(tenant, char(0)) = 0),
  kind          text    not null
    constraint kind_is_a_name check (length(cast(kind as blob)) between 1 and 100
      and kind glob '[A-Za-z0-9_]*' and kind not glob '*[^A-Za-z0-9_.:-]*' and instr(kind, char(0)) = 0),
  run_at        integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
    constraint run_at_is_in_years_1_to_9999 check (run_at between -62135596800000 and 253402300799999),
  attempt       integer not null default 0
    constraint attempt_is_a_count check (attempt between 0 and 2147483647),
  max_attempts  integer not null default 5 -- 2147483647 is unlimited
    constraint max_attempts_is_1_or_more check (max_attempts between 1 and 2147483647),
  timeout_ms    integer not null default 300000
    constraint timeout_is_1_ms_to_24_days check (timeout_ms between 1 and 2147483647),
  expires_at    integer
    constraint expires_at_is_in_years_1_to_9999 check (expires_at between -62135596800000 and 253402300799999),
  created_at    integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
    constraint created_at_is_in_years_1_to_9999 check (created_at between -62135596800000 and 253402300799999),
  failures      integer not null default 0
    constraint failures_is_a_count check (failures between 0 and 2147483647),
  crashes       integer not null default 0
    constraint crashes_is_a_small_count check (crashes between 0 and 1000000),
  generation    integer not null default 0
    constraint generation_is_a_count check (generation >= 0),
  cancel_at     integer
    constraint cancel_at_is_in_years_1_to_9999 check (cancel_at between -62135596800000 and 253402300799999),
  -- The lease. It may be cleared by hand, and then the job runs again.
  lease_until   integer
    constraint lease_until_is_in_years_1_to_9999 check (lease_until between -62135596800000 and 253402300799999),
  lease_token   integer,
  lease_holder  text,
  claimed_at    integer
    constraint claimed_at_is_in_years_1_to_9999 check (claimed_at between -62135596800000 and 253402300799999),
  headers       text
    constraint headers_are_a_json_object check (headers is null or json_valid(headers) and json_type(headers) = 'object'),
  errors        text,
  checkpoint    text,
  payload       text    not null
    constraint payload_is_at_most_10_mib check (length(cast(payload as blob)) <= 10485760)
    constraint payload_is_json check (json_valid(payload) and instr(payload, char(0)) = 0)
    -- The inner replace removes pairs of backslashes, so that an escaped
    -- backslash in front of u0000 passes.
    constraint payload_has_no_nul_escape check (instr(replace(payload, '\\', ''), '\u0000') = 0)
) strict;

-- The ready index. A claim reads, for each kind that its worker knows, from the
-- head of each priority: rows of other kinds and rows that are not yet due are
-- never touched. It has no column that a claim, a renewal or a release changes,
-- so leased rows stay in it and are passed over. (Without the kind in the lead, a
-- claim behind 100,000 jobs of a kind that its worker does not know took 25 ms on 2
-- busy cores, and 14 ms with the kind as the last column; so it takes under 2.)
create index later_job_ready on later_job (queue, kind, priority, run_at);

-- For the sweep: the few rows that claims leave. Each is empty as a rule.
create index later_job_crashed on later_job (crashes) where crashes > 0;
create index later_job_cancelled on later_job (cancel_at) where cancel_at is not null;
create index later_job_expiring on later_job (expires_at) where expires_at is not null;

-- Jobs out of attempts or failed permanently. They stay until a person acts.
create table later_dead_job (
  id            integer primary key,
  queue         text    not null,
  priority      integer not null,
  tenant        text    not null,
  kind          text    not null,
  run_at        integer not null,
  attempt       integer not null,
  max_attempts  integer not null,
  timeout_ms    integer not null,
  expires_at    integer,
  created_at    integer not null,
  failures      integer not null default 0,
  crashes       integer not null,
  generation    integer not null,
  died_at       integer not null,
  reason        text    not null,
  error         text,
  headers       text,
  errors        text,
  checkpoint    text,
  payload       text    not null
) strict;

-- One row for each finished attempt, in the order in which they finished.
create table later_job_log (
  id            integer primary key,
  job_id        integer not null,
  attempt       integer not null,
  queue         text    not null,
  kind          text    not null,
  tenant        text    not null,
  outcome       text    not null,
  worker        text,
  started_at    integer,
  finished_at   integer not null,
  error         text
) strict;

create index later_job_log_job on later_job_log (job_id);

-- Worker processes that said that they are alive: for people only.
create table later_worker (
  name          text    primary key,
  host          text    not null,
  pid           integer not null,
  version       text    not null,
  queues        text    not null,
  kinds         text    not null,
  slots         integer not null,
  running       integer not null,
  started_at    integer not null,
  seen_at       integer not null
) strict;

-- select * from later_status: what there is, by queue and state.
create view later_status as
with clock (now) as (select cast(round((julianday('now') - 2440587.5) * 86400000) as integer)),
job (queue, state, run_at) as (
  select queue,
    case
      when lease_until >= now then 'running'
      when lease_until is not null then 'lost'
      when run_at <= now then 'ready'
      when attempt > 0 then 'retry'
      else 'scheduled'
    end,
    run_at
  from later_job, clock
  union all
  select queue, 'dead', null from later_dead_job
)
select queue, state, count(*) as count,
  case when state in ('ready', 'lost') then strftime('%Y-%m-%d %H:%M:%f', min(run_at) / 1000.0, 'unixepoch') end as oldest
from job
group by queue, state
order by queue, state;

-- Who works on what, and since when.
create view later_running as
with clock (now) as (select cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
select id, queue, kind, tenant, attempt, lease_holder as worker,
  case when lease_until >= now then 'running' else 'lost' end as state,
  strftime('%Y-%m-%d %H:%M:%f', claimed_at / 1000.0, 'unixepoch') as claimed_at,
  strftime('%Y-%m-%d %H:%M:%f', lease_until / 1000.0, 'unixepoch') as lease_until,
  cancel_at is not null as cancelling
from later_job, clock
where lease_until is not null;

-- All jobs with times that people can read (UTC).
create view later_job_readable as
select id, queue, kind, tenant, priority,
  strftime('%Y-%m-%d %H:%M:%f', run_at / 1000.0, 'unixepoch') as run_at,
  attempt, max_attempts, failures, crashes, generation,
  strftime('%Y-%m-%d %H:%M:%f', expires_at / 1000.0, 'unixepoch') as expires_at,
  strftime('%Y-%m-%d %H:%M:%f', created_at / 1000.0, 'unixepoch') as created_at,
  strftime('%Y-%m-%d %H:%M:%f', cancel_at / 1000.0, 'unixepoch') as cancel_at,
  lease_holder as worker,
  strftime('%Y-%m-%d %H:%M:%f', lease_until / 1000.0, 'unixepoch') as lease_until,
  payload, errors
from later_job;

create view later_dead_job_readable as
select id, queue, kind, tenant, priority, reason, error,
  strftime('%Y-%m-%d %H:%M:%f', died_at / 1000.0, 'unixepoch') as died_at,
  attempt, max_attempts, failures, crashes, generation,
  strftime('%Y-%m-%d %H:%M:%f', created_at / 1000.0, 'unixepoch') as created_at,
  payload, errors
from later_dead_job;
