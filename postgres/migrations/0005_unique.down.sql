-- Keys and windows are lost.

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
do $$
declare
  old_enqueue constant regprocedure := '{schema}.enqueue(text, json, text, integer, text, interval, timestamptz, integer, interval, timestamptz, json, text, text, interval, boolean, text, interval)';
  new_enqueue constant regprocedure := '{schema}.enqueue(text, json, text, integer, text, interval, timestamptz, integer, interval, timestamptz, json)';
  one record;
begin
  if (select p.proacl is not null from pg_catalog.pg_proc p where p.oid = old_enqueue) then
    execute pg_catalog.format('revoke all on function %s from public', new_enqueue);
  end if;
  for one in
    select x.privilege_type, x.grantee, x.is_grantable
    from pg_catalog.pg_proc p
    cross join lateral pg_catalog.aclexplode(p.proacl) as x
    where p.oid = old_enqueue
  loop
    execute pg_catalog.format('grant %s on function %s to %s%s', one.privilege_type, new_enqueue,
      case one.grantee when 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(one.grantee)) end,
      case when one.is_grantable then ' with grant option' else '' end);
  end loop;
end
$$;

drop function {schema}.enqueue(text, json, text, integer, text, interval, timestamptz, integer, interval, timestamptz, json, text, text, interval, boolean, text, interval);
comment on function {schema}.enqueue is
  'Enqueues one job and returns its id: select enqueue(''welcome_email'', ''{"user":7}'', delay => ''10 minutes'')';

drop function {schema}.enqueue_unique;
drop function {schema}.window_end;
drop table {schema}.key_window;
drop index {schema}.job_unique;
alter table {schema}.dead_job drop column unique_key, drop column unique_until;
alter table {schema}.job drop column unique_key, drop column unique_until;
drop domain {schema}.unique_until;
drop domain {schema}.unique_key;
