-- oldest program: 1
-- Wake-ups. A worker that waits, and hears notifications, holds shared advisory locks
-- on its listening session: (waits, 0), and (waits, hash of the queue) for each of its
-- queues, or (waits, 1) when it has very many. Whoever enqueues finds out by trying for
-- the exclusive lock, and gives it back at once. So it takes no row to know who waits,
-- which somebody would have to write, to vacuum, and to clear after a crash; and while
-- nobody waits, as under load, an insert costs one such try and notifies nobody.
--
-- A try is one expression, which nothing can interrupt, so that no lock stays behind.
-- When two tries meet, one takes the other for a worker that waits; that costs a
-- needless look or notification.
--
-- NOTIFY has commits wait for each other, one disk flush after the other: with 64 who
-- insert while a worker waits, 494 commits a second instead of 4,193. So only one
-- transaction at a time notifies a queue, and does for all that come meanwhile: 3,910.
-- The time is part of that lock's key, so that a transaction which stays open keeps
-- wake-ups from those only who came within the same hundredth of a second; and a
-- transaction notes in a setting of its own what it has notified, so that it takes one
-- such lock for each queue, however many inserts it has.
--
-- None of it needs any right but the one to insert: the trigger's function calls no
-- other function of this schema, and reads no table.

create function {schema}.job_added() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  waits constant integer := hashtext('later waits {schema}');
  soon timestamptz;
  first text;
  last text;
  queues text[];
  one text;
begin
  if (case when pg_try_advisory_lock(waits, 0) then pg_advisory_unlock(waits, 0) else false end) then
    return null; -- nobody waits
  end if;
  soon := clock_timestamp() + interval '10 seconds'; -- WakeAhead
  select min(a.queue::text), max(a.queue::text) into first, last
  from added a
  where a.run_at <= soon;
  if first = last then
    queues := array[first];
  else
    queues := array(select distinct a.queue::text from added a where a.run_at <= soon);
  end if;
  foreach one in array queues loop
    if (case when pg_try_advisory_lock(waits, hashtext(one)) then pg_advisory_unlock(waits, hashtext(one)) else false end)
      and (case when pg_try_advisory_lock(waits, 1) then pg_advisory_unlock(waits, 1) else false end) then
      continue; -- nobody waits for this queue
    end if;
    if (case current_setting('later.wake', true)
         when 'on' then true
         when 'off' then false
         -- A transaction that has notified cannot be prepared.
         else current_setting('max_prepared_transactions') = '0'
       end)
      -- A full queue of notifications would fail the commit.
      and pg_notification_queue_usage() < 0.5
      and strpos(coalesce(current_setting('later.woken', true), ''), '{schema}.' || one || ' ') = 0
      and pg_try_advisory_xact_lock(hashtextextended(
        'later wakes {schema} ' || one, (extract(epoch from clock_timestamp()) * 100)::bigint)) then
      perform pg_notify('later_' || left(encode(sha256('{schema}'), 'hex'), 16), one),
        set_config('later.woken', coalesce(current_setting('later.woken', true), '') || '{schema}.' || one || ' ', true);
    end if;
  end loop;
  return null;
end
$$;
comment on function {schema}.job_added is
  'Wakes workers that wait for the queues of the rows that were inserted; set later.wake to off to have it not';

create trigger job_added after insert on {schema}.job
  referencing new table as added
  for each statement execute function {schema}.job_added();

-- The same for one queue, for those who make a job due in another way.
create function {schema}.wake(queue text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  waits constant integer := hashtext('later waits {schema}');
begin
  if (case when pg_try_advisory_lock(waits, hashtext(queue)) then pg_advisory_unlock(waits, hashtext(queue)) else false end)
    and (case when pg_try_advisory_lock(waits, 1) then pg_advisory_unlock(waits, 1) else false end) then
    return;
  end if;
  if (case current_setting('later.wake', true)
       when 'on' then true
       when 'off' then false
       else current_setting('max_prepared_transactions') = '0'
     end)
    and pg_notification_queue_usage() < 0.5
    and strpos(coalesce(current_setting('later.woken', true), ''), '{schema}.' || queue || ' ') = 0
    and pg_try_advisory_xact_lock(hashtextextended(
      'later wakes {schema} ' || queue, (extract(epoch from clock_timestamp()) * 100)::bigint)) then
    perform pg_notify('later_' || left(encode(sha256('{schema}'), 'hex'), 16), queue),
      set_config('later.woken', coalesce(current_setting('later.woken', true), '') || '{schema}.' || queue || ' ', true);
  end if;
end
$$;
comment on function {schema}.wake is
  'Wakes workers that wait for a queue, when a job of it was made due by an update: select wake(''mail'')';
grant execute on function {schema}.wake to public;
