-- oldest program: 1
-- Unique jobs. A job with a key holds it as long as its row has it: the index lets no
-- second one in, whoever inserts. Without a key a job writes no entry into the index.
--
-- A program from before this migration works beside it. It knows no keys: a dead job
-- that it makes or brings back loses its key, and a job that is unique until it starts
-- holds its key, when such a program has claimed it, until the next request with that
-- key.

create domain {schema}.unique_key as text collate "C";
create domain {schema}.unique_until as text collate "C";

alter table {schema}.job
  add column unique_key   {schema}.unique_key,
  add column unique_until {schema}.unique_until;

-- A dead job holds no key; it takes it again when it is retried.
alter table {schema}.dead_job
  add column unique_key   {schema}.unique_key,
  add column unique_until {schema}.unique_until;

-- The constraints come now, because a new column of a domain that had some already
-- would have every row written anew; and not valid, which means that no row is read for
-- them either: there are no keys yet. They hold for whatever comes in.
alter domain {schema}.unique_key
  add constraint unique_key_length check (octet_length(value) between 1 and 200) not valid;
alter domain {schema}.unique_key
  add constraint unique_key_characters check (value !~ '[\u0001-\u001f\u007f-\u009f]') not valid;
alter domain {schema}.unique_until
  add constraint unique_until_word check (value in ('done', 'started')) not valid;
comment on domain {schema}.unique_key is
  'A key of which there is one at a time: 1 to 200 bytes without control characters';
comment on domain {schema}.unique_until is
  'How long a job holds its key: done (until it has left the table; also null) or started (until a worker takes it)';

create unique index job_unique on {schema}.job (tenant, kind, unique_key) where unique_key is not null;

comment on column {schema}.job.unique_key is 'No other job of this tenant and kind may have the same; null: any number. Set it to null to free the key';
comment on column {schema}.job.unique_until is 'done or null: the key is held until the job leaves the table; started: until a worker takes it';
comment on column {schema}.dead_job.unique_key is 'The key that the job takes again when it is retried; it does not hold it';

-- Keys that are taken until a time, whatever becomes of the job.
create table {schema}.key_window (
  ends_at timestamptz not null,
  job_id  bigint not null,
  tenant  {schema}.tenant not null,
  kind    {schema}.name not null,
  key     {schema}.unique_key not null,
  primary key (tenant, kind, key)
);
create index key_window_end on {schema}.key_window (ends_at);
comment on table {schema}.key_window is 'Keys of which there is one job for each stretch of time; delete a row to free its key';
comment on column {schema}.key_window.ends_at is 'From then on the key is free';
comment on column {schema}.key_window.job_id is 'The job that took the key; it may have ended';

-- When a window ends in which a job is stored at a time. Windows that do not slide are
-- counted from 1970 in UTC. A day has 24 hours, whatever the session's time zone.
create function {schema}.window_end(stored_at timestamptz, width interval, sliding boolean) returns timestamptz
language sql immutable
as $$
  select case
    when window_end.sliding then window_end.stored_at + ms.width * interval '1 millisecond'
    else timestamptz '1970-01-01 00:00:00+00' + (ms.since_1970 / ms.width + 1) * ms.width * interval '1 millisecond'
  end
  from (
    select floor(extract(epoch from window_end.stored_at) * 1000)::bigint as since_1970,
           (extract(epoch from window_end.width) * 1000)::bigint as width
  ) as ms
$$;
comment on function {schema}.window_end is
  'When the window ends in which a job is stored at a time';

-- Enqueues one job with a key, or meets the job that holds it: id is the new job or the
-- holder, and holder the state in which that was found, null for a new job.
--
-- It looks first, so that a duplicate takes no number from the sequence and writes
-- nothing. Then it inserts, which waits for whoever has taken the key and not yet
-- committed; if that one keeps it, it looks again. Where it has to change the holder it
-- locks it and looks once more. In a transaction that is read committed each look sees
-- what was committed before it; above that, the server reports a serialization failure
-- when the key was taken or its holder changed since the transaction began.
--
-- The settings are for the look at the holder: whatever the statistics say, and whatever
-- plan was kept since the table was empty, it goes through job_unique (and through the
-- primary key of key_window). In its order, hence "between" and "order by": with an
-- equality the order would mean nothing, and on an empty table the planner would take
-- job_ready as gladly, and later read all of it.
create function {schema}.enqueue_unique(
  kind          text,
  payload       json,
  queue         text,
  priority      integer,
  tenant        text,
  run_at        timestamptz,
  max_attempts  integer,
  timeout_ms    bigint,
  expires_at    timestamptz,
  headers       json,
  unique_key    text,
  unique_until  text, -- done, started, or window
  unique_window interval,
  sliding       boolean,
  on_conflict   text, -- skip, replace, postpone, or both
  latest        interval,
  out id        bigint,
  out holder    text,
  out replaced  boolean,
  out postponed boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  my_tenant constant text collate "C" := enqueue_unique.tenant;
  my_kind constant text collate "C" := enqueue_unique.kind;
  my_key constant text collate "C" := enqueue_unique.unique_key;
  windowed constant boolean := enqueue_unique.unique_until = 'window';
  replaces constant boolean := enqueue_unique.on_conflict in ('replace', 'both');
  postpones constant boolean := enqueue_unique.on_conflict in ('postpone', 'both');
  moment timestamptz;
  found_id bigint;
  locked_id bigint;
  h record;
begin
  replaced := false;
  postponed := false;
  for look in 1..100 loop
    if locked_id is not null then
      perform from {schema}.job j where j.id = locked_id for update;
    end if;
    moment := clock_timestamp();
    found_id := null;
    if windowed then
      select w.job_id into found_id
      from {schema}.key_window w
      where w.tenant = my_tenant and w.kind = my_kind and w.key between my_key and my_key and w.ends_at > moment
      order by w.key;
    else
      select j.id into found_id
      from {schema}.job j
      where j.tenant = my_tenant and j.kind = my_kind and j.unique_key between my_key and my_key
      order by j.unique_key;
    end if;

    if found_id is null then
      if windowed then
        insert into {schema}.key_window as w (tenant, kind, key, ends_at, job_id)
        values (my_tenant, my_kind, my_key,
                {schema}.window_end(moment, enqueue_unique.unique_window, enqueue_unique.sliding), 0)
        on conflict (tenant, kind, key) do update
          set ends_at = excluded.ends_at
          where w.ends_at <= moment;
        continue when not found; -- somebody else has begun the window
      end if;
      insert into {schema}.job
        (queue, priority, tenant, kind, payload, run_at, max_attempts, timeout_ms, expires_at, headers,
         unique_key, unique_until)
      values (
        enqueue_unique.queue, enqueue_unique.priority, my_tenant, my_kind, enqueue_unique.payload,
        enqueue_unique.run_at, enqueue_unique.max_attempts, enqueue_unique.timeout_ms,
        enqueue_unique.expires_at, enqueue_unique.headers,
        case when not windowed then my_key end,
        case when enqueue_unique.unique_until = 'started' then 'started' end)
      on conflict (tenant, kind, unique_key) where unique_key is not null do nothing
      returning job.id into found_id;
      continue when found_id is null; -- somebody else has taken the key
      if windowed then
        update {schema}.key_window w
        set job_id = found_id
        where w.tenant = my_tenant and w.kind = my_kind and w.key = my_key;
      end if;
      id := found_id;
      return;
    end if;

    -- A job that was cancelled or has expired will not run, unless it runs already: it
    -- waits for being ended, or has the lease that is for that, without claimed_at. One
    -- that holds its key until it starts, and has started, was claimed by a program that
    -- knows no keys.
    select case
             when j.lease_until >= moment then 'running'
             when j.lease_until is not null then 'lost'
             when j.run_at <= moment then 'ready'
             when j.attempt > 0 then 'retry'
             else 'scheduled'
           end as state,
           j.lease_until is null as waits,
           (j.cancel_at is not null or coalesce(j.expires_at <= moment, false))
             and not coalesce(j.lease_until >= moment and j.claimed_at is not null, false) as is_over,
           coalesce(j.unique_until = 'started', false) and (j.attempt > 0 or j.lease_until is not null) as has_started,
           coalesce(least(enqueue_unique.run_at, j.created_at + enqueue_unique.latest) > j.run_at, false) as moves
    into h
    from {schema}.job j
    where j.id = found_id;
    if not found then
      continue when not windowed; -- it has left just now
      id := found_id;
      holder := case when exists (select from {schema}.dead_job d where d.id = found_id) then 'dead' else 'ended' end;
      return;
    end if;

    if not windowed and (h.is_over or h.has_started) then
      if locked_id is not distinct from found_id then
        update {schema}.job j set unique_key = null where j.id = found_id;
      end if;
      locked_id := found_id;
      continue;
    end if;

    if h.waits and not h.is_over and (replaces or postpones and h.moves) then
      if locked_id is distinct from found_id then
        locked_id := found_id;
        continue;
      end if;
      update {schema}.job j
      set payload = case when replaces then enqueue_unique.payload::{schema}.payload else j.payload end,
          headers = case when replaces then enqueue_unique.headers::{schema}.headers else j.headers end,
          checkpoint = case when not replaces then j.checkpoint end,
          run_at = case
            when postpones and h.moves then least(enqueue_unique.run_at, j.created_at + enqueue_unique.latest)
            else j.run_at
          end
      where j.id = found_id;
      replaced := replaces;
      postponed := postpones and h.moves;
    end if;
    id := found_id;
    holder := h.state;
    return;
  end loop;
  raise exception 'the key % is taken, but its holder cannot be seen', quote_literal(my_key)
    using errcode = 'serialization_failure', hint = 'does a policy of row-level security hide it?';
end
$$;
comment on function {schema}.enqueue_unique is
  'What the library calls to enqueue a job with a key; in SQL take enqueue';

-- The function enqueue, with keys. Made beside the old one, which then goes, so that
-- whoever may execute that may execute this one.
create function {schema}.enqueue(
  kind          text,
  payload       json default '{}',
  queue         text default 'default',
  priority      integer default 0,
  tenant        text default '',
  delay         interval default null,
  run_at        timestamptz default null,
  max_attempts  integer default 5,
  timeout       interval default '5 minutes',
  expires_at    timestamptz default null,
  headers       json default null,
  unique_key    text default null,
  unique_until  text default 'done',
  unique_window interval default null,
  sliding       boolean default false,
  on_conflict   text default 'skip',
  latest        interval default null
) returns bigint
language plpgsql
as $$
declare
  due timestamptz := greatest(now(), coalesce(enqueue.run_at, now() + enqueue.delay, now()));
  until text := case when enqueue.unique_window is not null then 'window' else coalesce(enqueue.unique_until, 'done') end;
  conflict text := coalesce(enqueue.on_conflict, 'skip');
  new_id bigint;
begin
  if enqueue.delay is not null and enqueue.run_at is not null then
    raise exception 'delay and run_at are both set; set one' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.delay < interval '0' then
    raise exception 'delay is negative' using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.unique_key is null then
    if until <> 'done' or enqueue.sliding or conflict <> 'skip' or enqueue.latest is not null then
      raise exception 'unique_key is not set, but an option that needs it' using errcode = 'invalid_parameter_value';
    end if;
    insert into {schema}.job
      (kind, payload, queue, priority, tenant, run_at, max_attempts, timeout_ms, expires_at, headers)
    values (
      enqueue.kind,
      coalesce(enqueue.payload, '{}'),
      coalesce(enqueue.queue, 'default'),
      coalesce(enqueue.priority, 0),
      coalesce(enqueue.tenant, ''),
      due,
      coalesce(enqueue.max_attempts, 5),
      floor(extract(epoch from coalesce(enqueue.timeout, interval '5 minutes')) * 1000),
      enqueue.expires_at,
      enqueue.headers)
    returning id into new_id;
    return new_id;
  end if;
  if until not in ('done', 'started', 'window') then
    raise exception 'unique_until is %; there are done and started', quote_literal(until)
      using errcode = 'invalid_parameter_value';
  end if;
  if conflict not in ('skip', 'replace', 'postpone', 'both') then
    raise exception 'on_conflict is %; there are skip, replace, postpone and both', quote_literal(conflict)
      using errcode = 'invalid_parameter_value';
  end if;
  if until = 'window' and (coalesce(enqueue.unique_until, 'done') <> 'done'
      or enqueue.unique_window not between interval '1 millisecond' and interval '365 days') then
    raise exception 'unique_window goes from 1 millisecond to 365 days, without unique_until'
      using errcode = 'invalid_parameter_value';
  end if;
  if enqueue.sliding and until <> 'window' then
    raise exception 'sliding is set, but there is no unique_window' using errcode = 'invalid_parameter_value';
  end if;
  if (conflict in ('postpone', 'both')) <> coalesce(enqueue.latest >= interval '1 millisecond', false) then
    raise exception 'latest belongs to the conflicts postpone and both, and is at least 1 millisecond'
      using errcode = 'invalid_parameter_value';
  end if;
  select u.id into new_id
  from {schema}.enqueue_unique(
    enqueue.kind, coalesce(enqueue.payload, '{}'), coalesce(enqueue.queue, 'default'), coalesce(enqueue.priority, 0),
    coalesce(enqueue.tenant, ''), due, coalesce(enqueue.max_attempts, 5),
    floor(extract(epoch from coalesce(enqueue.timeout, interval '5 minutes')) * 1000)::bigint,
    enqueue.expires_at, enqueue.headers,
    enqueue.unique_key, until, enqueue.unique_window, coalesce(enqueue.sliding, false), conflict, enqueue.latest) as u;
  return new_id;
end
$$;

-- Rights: whoever may read or change jobs may do so with windows, too.
do $$
declare
  old_enqueue constant regprocedure := '{schema}.enqueue(text, json, text, integer, text, interval, timestamptz, integer, interval, timestamptz, json)';
  new_enqueue constant regprocedure := '{schema}.enqueue(text, json, text, integer, text, interval, timestamptz, integer, interval, timestamptz, json, text, text, interval, boolean, text, interval)';
  one record;
begin
  if (select p.proacl is not null from pg_catalog.pg_proc p where p.oid = old_enqueue) then
    execute pg_catalog.format('revoke all on function %s from public', new_enqueue);
  end if;
  for one in
    select x.privilege_type || ' on function ' || new_enqueue::text as what, x.grantee, x.is_grantable
    from pg_catalog.pg_proc p
    cross join lateral pg_catalog.aclexplode(p.proacl) as x
    where p.oid = old_enqueue
    union all
    select x.privilege_type || ' on {schema}.key_window', x.grantee, x.is_grantable
    from pg_catalog.pg_class c
    cross join lateral pg_catalog.aclexplode(c.relacl) as x
    where c.oid = '{schema}.job'::regclass
      and x.grantee <> c.relowner
      and x.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    execute pg_catalog.format('grant %s to %s%s', one.what,
      case one.grantee when 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(one.grantee)) end,
      case when one.is_grantable then ' with grant option' else '' end);
  end loop;
end
$$;

drop function {schema}.enqueue(text, json, text, integer, text, interval, timestamptz, integer, interval, timestamptz, json);
comment on function {schema}.enqueue is
  'Enqueues one job and returns its id: select enqueue(''welcome_email'', ''{"user":7}'', delay => ''10 minutes''). With a unique_key that another job holds it returns the id of that one';
