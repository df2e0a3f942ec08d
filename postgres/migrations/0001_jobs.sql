-- oldest program: 1
-- The tables of Later. {schema} stands for the schema's quoted name.

-- Domains and not CHECKs for what costs time to check: a domain is checked when
-- a value comes in, a CHECK again at every claim and every renewal.

create domain {schema}.name as text collate "C"
  constraint name_length check (octet_length(value) between 1 and 100)
  constraint name_characters check (value ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$');
comment on domain {schema}.name is
  'A queue or a kind: 1 to 100 letters, digits and _, after the first also . : -';

create domain {schema}.tenant as text collate "C"
  constraint tenant_length check (octet_length(value) <= 200)
  constraint tenant_characters check (
    value !~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]')
  constraint tenant_no_space_at_its_ends check (value not like ' %' and value not like '% ');
comment on domain {schema}.tenant is
  'On whose behalf: up to 200 bytes without control or invisible characters; empty is nobody''s';

-- json and not jsonb: the bytes that were enqueued are the bytes that the
-- handler gets. The second check refuses the escape for NUL, which no text can
-- carry; taking out pairs of backslashes first lets its harmless twin pass.
create domain {schema}.payload as json
  constraint payload_length check (octet_length(value::text) <= 10485760)
  constraint payload_without_nul check (
    strpos(replace(value::text, '\\', ''), '\u0000') = 0);
comment on domain {schema}.payload is
  'JSON of at most 10 MiB without the escape \u0000; kept byte for byte';

create domain {schema}.headers as json
  constraint headers_length check (octet_length(value::text) <= 131072)
  constraint headers_without_nul check (
    strpos(replace(value::text, '\\', ''), '\u0000') = 0)
  constraint headers_object_of_texts check (
    json_typeof(value) = 'object'
    and not jsonb_path_exists(value::jsonb, '$.* ? (@.type() != "string")'));
comment on domain {schema}.headers is 'A JSON object whose values are texts';

-- Work that has not been done. A finished job leaves the table.
--
-- No index and no index predicate names a column that a claim, a renewal or a
-- release changes (attempt, claimed_at, lease_*), so those updates are HOT: they
-- write no index entry. The fillfactor leaves room on each page for two versions of
-- each of its rows with a lease, which makes a row longer by some 60 bytes: with a
-- payload of 110 bytes, 45 left 2% of the renewals without room, 35 none.
create table {schema}.job (
  id           bigint generated always as identity primary key,
  run_at       timestamptz not null default now(),
  created_at   timestamptz not null default now(),
  expires_at   timestamptz,
  cancel_at    timestamptz,
  claimed_at   timestamptz,
  lease_until  timestamptz,
  lease_token  bigint,
  attempt      integer not null default 0,
  max_attempts integer not null default 5,
  timeout_ms   integer not null default 300000,
  failures     integer not null default 0,
  crashes      integer not null default 0,
  generation   integer not null default 0,
  priority     smallint not null default 0,
  queue        {schema}.name not null default 'default',
  kind         {schema}.name not null,
  tenant       {schema}.tenant not null default '',
  lease_holder text,
  payload      {schema}.payload not null default '{}',
  headers      {schema}.headers,
  errors       json,
  checkpoint   json,

  constraint job_run_at check (
    run_at >= '0001-01-01 00:00:00+00' and run_at < '10000-01-01 00:00:00+00'),
  constraint job_expires_at check (
    expires_at >= '0001-01-01 00:00:00+00' and expires_at < '10000-01-01 00:00:00+00'),
  constraint job_created_at check (
    created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'),
  constraint job_cancel_at check (
    cancel_at >= '0001-01-01 00:00:00+00' and cancel_at < '10000-01-01 00:00:00+00'),
  constraint job_attempt check (attempt >= 0),
  constraint job_max_attempts check (max_attempts >= 1),
  constraint job_timeout_ms check (timeout_ms >= 1),
  constraint job_failures check (failures >= 0),
  constraint job_crashes check (crashes between 0 and 1000000),
  constraint job_generation check (generation >= 0),
  constraint job_lease check (
    (lease_until is null) = (lease_token is null)
    and (lease_until is null) = (lease_holder is null)
    and (claimed_at is null or lease_until is not null)
    and lease_until >= '0001-01-01 00:00:00+00' and lease_until < '10000-01-01 00:00:00+00'
    and claimed_at >= '0001-01-01 00:00:00+00' and claimed_at < '10000-01-01 00:00:00+00')
) with (
  fillfactor = 35,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 500,
  autovacuum_analyze_scale_factor = 0.1,
  autovacuum_analyze_threshold = 500,
  autovacuum_vacuum_cost_delay = 1,
  -- Giving the emptied end of the file back takes an exclusive lock, and the
  -- next burst needs the space again.
  vacuum_truncate = false,
  toast.autovacuum_vacuum_scale_factor = 0.02,
  toast.autovacuum_vacuum_threshold = 500,
  toast.vacuum_truncate = false
);

-- What a claim goes through: within a level, each kind is a lane of its own, so
-- that rows of kinds that a worker does not know are never read. id + 0 and not id,
-- so that a look-up by id fits the primary key only: planned for an empty table, it
-- would else take this index as gladly, and read all of it when the table has grown.
create index job_ready on {schema}.job (queue, priority, kind, run_at, (id + 0));
-- What the sweep goes through, one index for each of its reasons, so that many rows
-- with one reason do not stand in the way of the others; nearly always all but empty.
create index job_cancelled on {schema}.job (cancel_at) where cancel_at is not null;
create index job_expires on {schema}.job (expires_at) where expires_at is not null;
create index job_crashed on {schema}.job (crashes, (id + 0)) where crashes > 0;
create index job_crashed_only on {schema}.job ((id + 0)) where crashes > 0 and max_attempts = 1;
create index job_suspect on {schema}.job (queue, kind, priority, run_at) where crashes > 0 and max_attempts > 1;

comment on table {schema}.job is 'Jobs that are waiting or running; a finished one leaves the table';
comment on column {schema}.job.id is 'Never reused';
comment on column {schema}.job.run_at is 'Not before this time';
comment on column {schema}.job.created_at is 'When it was enqueued';
comment on column {schema}.job.expires_at is 'From then on it is not worth running; null: always';
comment on column {schema}.job.cancel_at is 'When somebody asked for a running job to be cancelled';
comment on column {schema}.job.claimed_at is 'When the running attempt began; null while nothing runs';
comment on column {schema}.job.lease_until is 'Until when lease_holder has the job to itself; then the next claim takes it. Set all lease columns and claimed_at to null to free a job: its worker''s result is refused from then on';
comment on column {schema}.job.lease_token is 'Random for each claim: a result counts only with it';
comment on column {schema}.job.lease_holder is 'The worker that claimed the job';
comment on column {schema}.job.attempt is 'The number of the running or last attempt; 0 before the first';
comment on column {schema}.job.max_attempts is 'How many attempts may fail; 2147483647 is no limit';
comment on column {schema}.job.timeout_ms is 'How long one attempt may run, in milliseconds';
comment on column {schema}.job.failures is 'How many attempts failed; at max_attempts the job is dead';
comment on column {schema}.job.crashes is 'How many attempts in a row ended because their worker was lost; a job that was lost often runs alone, and in the end is dead';
comment on column {schema}.job.generation is 'How often the job was retried from the dead';
comment on column {schema}.job.priority is 'Lower runs first';
comment on column {schema}.job.queue is 'Which workers run it';
comment on column {schema}.job.kind is 'Which handler runs it';
comment on column {schema}.job.tenant is 'On whose behalf; empty: nobody''s';
comment on column {schema}.job.payload is 'What the handler gets, byte for byte';
comment on column {schema}.job.headers is 'Trace context and the like: an object of texts';
comment on column {schema}.job.errors is 'The failed attempts: the first and the newest';
comment on column {schema}.job.checkpoint is 'What the handler last saved';

-- Jobs that failed for good, until a person acts.
create table {schema}.dead_job (
  id           bigint primary key,
  run_at       timestamptz not null,
  created_at   timestamptz not null,
  expires_at   timestamptz,
  died_at      timestamptz not null default now(),
  attempt      integer not null,
  max_attempts integer not null constraint dead_job_max_attempts check (max_attempts >= 1),
  timeout_ms   integer not null constraint dead_job_timeout_ms check (timeout_ms >= 1),
  failures     integer not null default 0,
  crashes      integer not null,
  generation   integer not null constraint dead_job_generation check (generation >= 0),
  priority     smallint not null,
  queue        {schema}.name not null,
  kind         {schema}.name not null,
  tenant       {schema}.tenant not null,
  reason       text not null,
  error        text not null,
  payload      {schema}.payload not null,
  headers      {schema}.headers,
  errors       json,
  checkpoint   json,

  constraint dead_job_times check (
    isfinite(died_at)
    and run_at >= '0001-01-01 00:00:00+00' and run_at < '10000-01-01 00:00:00+00'
    and created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00')
);

comment on table {schema}.dead_job is 'Jobs that failed for good, kept until a person acts';
comment on column {schema}.dead_job.id is 'The id that the job had, and has again when it is retried';
comment on column {schema}.dead_job.died_at is 'When it was given up';
comment on column {schema}.dead_job.reason is 'failed, permanent, undecodable, timeout, expired or lost';
comment on column {schema}.dead_job.error is 'The last attempt''s error';
comment on column {schema}.dead_job.errors is 'The failed attempts: the first and the newest';

-- History: one row for each finished attempt. Its days are partitions, so that
-- old ones are dropped and never deleted from; the default partition takes what
-- comes while its day has none.
create table {schema}.job_log (
  job_id      bigint not null,
  started_at  timestamptz,
  finished_at timestamptz not null default now(),
  attempt     integer not null,
  queue       text collate "C" not null,
  kind        text collate "C" not null,
  tenant      text collate "C" not null,
  outcome     text collate "C" not null,
  worker      text not null,
  error       text not null
) partition by range (finished_at);

create index job_log_job on {schema}.job_log using brin (job_id) with (pages_per_range = 16, autosummarize = on);
create table {schema}.job_log_default partition of {schema}.job_log default;

-- The first days' partitions, with what Maintain makes each day: what has gone into
-- the default partition keeps its day there.
do $$
declare
  today timestamp := date_trunc('day', now() at time zone 'UTC');
  day timestamp;
begin
  for n in 0..3 loop
    day := today + n * interval '1 day';
    execute format(
      'create table {schema}.%I partition of {schema}.job_log for values from (%L) to (%L)',
      'job_log_' || to_char(day, 'YYYYMMDD'), day at time zone 'UTC', (day + interval '1 day') at time zone 'UTC');
  end loop;
end
$$;

comment on table {schema}.job_log is 'Finished attempts of the last days, one row each';
comment on column {schema}.job_log.started_at is 'When the attempt began; null when it never ran';
comment on column {schema}.job_log.outcome is 'done, retry, snoozed, dead, cancelled, expired, lost or deleted';
comment on column {schema}.job_log.worker is 'Who ran it; empty: nobody';

-- For people: which workers there are. Nothing depends on it.
create table {schema}.worker (
  name       text collate "C" primary key,
  started_at timestamptz not null default now(),
  seen_at    timestamptz not null default now(),
  pid        integer not null,
  slots      integer not null,
  running    integer not null,
  host       text not null,
  version    text not null,
  queues     text[] not null,
  kinds      text[] not null
) with (fillfactor = 50);

comment on table {schema}.worker is 'Worker processes that were alive lately; for people, nothing depends on it';

-- Enqueues one job and returns its id. delay counts from now(); a run_at that
-- has passed becomes now().
create function {schema}.enqueue(
  kind         text,
  payload      json default '{}',
  queue        text default 'default',
  priority     integer default 0,
  tenant       text default '',
  delay        interval default null,
  run_at       timestamptz default null,
  max_attempts integer default 5,
  timeout      interval default '5 minutes',
  expires_at   timestamptz default null,
  headers      json default null
) returns bigint
language plpgsql
as $$
declare
  new_id bigint;
begin
  if enqueue.delay is not null and enqueue.run_at is not null then
    raise exception 'delay and run_at are both set; set one' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.delay < interval '0' then
    raise exception 'delay is negative' using errcode = 'invalid_parameter_value';
  end if;
  insert into {schema}.job
    (kind, payload, queue, priority, tenant, run_at, max_attempts, timeout_ms, expires_at, headers)
  values (
    enqueue.kind,
    coalesce(enqueue.payload, '{}'),
    coalesce(enqueue.queue, 'default'),
    coalesce(enqueue.priority, 0),
    coalesce(enqueue.tenant, ''),
    greatest(now(), coalesce(enqueue.run_at, now() + enqueue.delay, now())),
    coalesce(enqueue.max_attempts, 5),
    floor(extract(epoch from coalesce(enqueue.timeout, interval '5 minutes')) * 1000),
    enqueue.expires_at,
    enqueue.headers)
  returning id into new_id;
  return new_id;
end
$$;
comment on function {schema}.enqueue is
  'Enqueues one job and returns its id: select enqueue(''welcome_email'', ''{"user":7}'', delay => ''10 minutes'')';

create view {schema}.status as
select queue, state, count(*) as count,
       min(run_at) filter (where state in ('ready', 'lost')) as oldest
from (
  select queue, run_at,
         case
           when lease_until >= now() then 'running'
           when lease_until < now() then 'lost'
           when run_at <= now() then 'ready'
           when attempt > 0 then 'retry'
           else 'scheduled'
         end as state
  from {schema}.job
  union all
  select queue, null, 'dead'
  from {schema}.dead_job
) as jobs
group by queue, state
order by queue, state;
comment on view {schema}.status is
  'Jobs by queue and state; oldest is the run_at of the one that has been due for longest. Reads the whole table';

create view {schema}.running as
select id, kind, queue, tenant, attempt,
       lease_holder as worker,
       now() - claimed_at as running_for,
       lease_until - now() as lease_ends_in
from {schema}.job
where lease_until is not null
order by claimed_at;
comment on view {schema}.running is
  'Jobs under a lease; where lease_ends_in is negative the worker is lost and the next claim takes the job';
