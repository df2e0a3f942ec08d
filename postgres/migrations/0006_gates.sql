-- oldest program: 1
-- Gates: what holds jobs back together. A program from before this migration does not know of
-- them: it claims what is paused, and over a limit.
create table {schema}.gate (
  scope       text collate "C" not null constraint gate_scope check (scope in ('queue', 'kind', 'tenant', 'tenants')),
  name        text collate "C" not null,
  paused_at   timestamptz,
  paused_by   text,
  reason      text,
  max_running integer constraint gate_max_running check (max_running between 0 and 10000),
  rate_n      integer constraint gate_rate_n check (rate_n between 1 and 1000000),
  rate_period interval constraint gate_rate_period check (
    rate_period between interval '1 millisecond' and interval '365 days'),
  rate_burst  integer constraint gate_rate_burst check (rate_burst between 1 and 1000000),
  ordered     boolean not null default false,
  on_dead     text constraint gate_on_dead check (on_dead = 'blocks'),
  weight      integer constraint gate_weight check (weight between 1 and 1000),
  set_at      timestamptz,
  set_by      text,
  primary key (scope, name),
  constraint gate_name check ((name = '') = (scope = 'tenants')),
  constraint gate_pause check ((paused_at is null) = (paused_by is null) and (paused_at is null or scope <> 'tenants')),
  constraint gate_limit check ((set_at is null) = (set_by is null)
    and (set_at is not null or max_running is null and rate_n is null and not ordered and weight is null)),
  constraint gate_rate check ((rate_n is null) = (rate_period is null) and (rate_burst is null or rate_n is not null)),
  constraint gate_ordered check (not ordered or coalesce(max_running, 1) = 1),
  constraint gate_dead check (on_dead is null or ordered),
  constraint gate_weighs check (weight is null or scope = 'tenant')
);
comment on table {schema}.gate is 'Queues, kinds and tenants whose jobs are held back or limited; the scope tenants is the default for each tenant';
comment on column {schema}.gate.paused_at is 'Since when no job of it starts; null: it is not paused';
comment on column {schema}.gate.paused_by is 'Who paused it';
comment on column {schema}.gate.max_running is 'How many may run at once; null: any number';
comment on column {schema}.gate.rate_n is 'How many may start in each rate_period; null: any number';
comment on column {schema}.gate.rate_burst is 'How many may start at once after a quiet time; null: 1';
comment on column {schema}.gate.ordered is 'Whether they run one after the other, also across retries';
comment on column {schema}.gate.on_dead is 'blocks: none runs behind a dead one; null: the next one runs';
comment on column {schema}.gate.weight is 'How many jobs the tenant has in its turn; null: 1';
comment on column {schema}.gate.set_at is 'When the limit was set; null: there is none';
comment on column {schema}.gate.set_by is 'Who set the limit';

-- What a limit remembers: who was let in, and how far its rate has got. The row with the
-- highest seq counts. It is never updated: each claim that lets somebody in puts a row above it and
-- deletes it. So the one that counts is the first that a look finds, however many of its
-- predecessors an old snapshot keeps.
create table {schema}.gate_state (
  scope   text collate "C" not null,
  name    text collate "C" not null,
  seq     bigint not null,
  running bigint[] not null,
  tat     timestamptz,
  primary key (scope, name, seq)
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 1,
  vacuum_truncate = false
);
comment on table {schema}.gate_state is 'What limits remember; of each scope and name the row with the highest seq counts';
comment on column {schema}.gate_state.running is 'The jobs that were let in; they take up a place while their lease holds (ordered: while they exist)';
comment on column {schema}.gate_state.tat is 'When the next job would start if all were spread evenly';

-- A claim names the version of the gates that it knows, and takes nothing if there is another
-- one: so a change holds from its commit on, for every process.
create table {schema}.gate_version (
  one     boolean primary key default true constraint gate_version_one check (one),
  version bigint not null
);
insert into {schema}.gate_version (version) values (1);
comment on table {schema}.gate_version is 'Moves with each change of the gates, so that workers notice';

create function {schema}.gate_changed() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update {schema}.gate_version set version = version + 1 where one;
  -- Workers that wait look again.
  perform pg_notify('later_' || left(encode(sha256('{schema}'), 'hex'), 16), '*')
  where current_setting('max_prepared_transactions') = '0' and pg_notification_queue_usage() < 0.5;
  return null;
end
$$;
comment on function {schema}.gate_changed is 'Tells workers that the gates have changed';

create trigger gate_changed after insert or update or delete or truncate on {schema}.gate
  for each statement execute function {schema}.gate_changed();

-- Whose jobs a worker runs.
alter table {schema}.worker add column tenants text[];
comment on column {schema}.worker.tenants is 'Whose jobs it runs; null: everybody''s';
