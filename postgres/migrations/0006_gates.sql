-- oldest program: 1
-- Gates: what holds jobs back together. A program from before this migration does not know of
-- them: it claims what is paused.
create table {schema}.gate (
  scope     text collate "C" not null constraint gate_scope check (scope in ('queue', 'kind', 'tenant')),
  name      text collate "C" not null constraint gate_name check (name <> ''),
  paused_at timestamptz,
  paused_by text,
  reason    text,
  primary key (scope, name),
  constraint gate_pause check ((paused_at is null) = (paused_by is null))
);
comment on table {schema}.gate is 'Queues, kinds and tenants whose jobs are held back';
comment on column {schema}.gate.paused_at is 'Since when no job of it starts; null: it is not paused';
comment on column {schema}.gate.paused_by is 'Who paused it';

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
