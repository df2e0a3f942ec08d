-- oldest program: 1
--
-- The columns that a claim changes go to the end of the row, beside each other. An
-- update that stays on its page writes into the WAL what lies between the first and the
-- last byte that it changes; before, that took in every column up to the queue, the kind
-- and the tenant: 34 bytes for each job.
--
-- No row is rewritten but those of jobs that run or have run before. Still the table is
-- locked meanwhile, and read once for its constraints.

alter table {schema}.job drop constraint job_attempt, drop constraint job_lease;
alter table {schema}.job rename column attempt to old_attempt;
alter table {schema}.job rename column claimed_at to old_claimed_at;
alter table {schema}.job rename column lease_until to old_lease_until;
alter table {schema}.job rename column lease_token to old_lease_token;
alter table {schema}.job rename column lease_holder to old_lease_holder;

alter table {schema}.job
  add column claimed_at   timestamptz,
  add column lease_until  timestamptz,
  add column lease_token  bigint,
  add column attempt      integer not null default 0,
  add column lease_holder text;

update {schema}.job
set attempt = old_attempt, claimed_at = old_claimed_at,
    lease_until = old_lease_until, lease_token = old_lease_token, lease_holder = old_lease_holder
where old_attempt <> 0 or old_lease_until is not null;

-- Replaced, not dropped, so that whoever may read them still may.
create or replace view {schema}.status as
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

create or replace view {schema}.running as
select id, kind, queue, tenant, attempt,
       lease_holder as worker,
       now() - claimed_at as running_for,
       lease_until - now() as lease_ends_in
from {schema}.job
where lease_until is not null
order by claimed_at;

alter table {schema}.job
  drop column old_attempt,
  drop column old_claimed_at,
  drop column old_lease_until,
  drop column old_lease_token,
  drop column old_lease_holder,
  add constraint job_attempt check (attempt >= 0),
  add constraint job_lease check (
    (lease_until is null) = (lease_token is null)
    and (lease_until is null) = (lease_holder is null)
    and (claimed_at is null or lease_until is not null)
    and lease_until >= '0001-01-01 00:00:00+00' and lease_until < '10000-01-01 00:00:00+00'
    and claimed_at >= '0001-01-01 00:00:00+00' and claimed_at < '10000-01-01 00:00:00+00');

comment on column {schema}.job.claimed_at is 'When the running attempt began; null while nothing runs';
comment on column {schema}.job.lease_until is 'Until when lease_holder has the job to itself; then the next claim takes it. Set all lease columns and claimed_at to null to free a job: its worker''s result is refused from then on';
comment on column {schema}.job.lease_token is 'Random for each claim: a result counts only with it';
comment on column {schema}.job.lease_holder is 'The worker that claimed the job';
comment on column {schema}.job.attempt is 'The number of the running or last attempt; 0 before the first';
