-- oldest program: 1
--
-- Unique jobs. A job with a key holds it as long as its row has it: the index lets no
-- second one in. A program from before this migration works beside it; it knows no keys,
-- so a dead job that it makes or brings back loses its key, and a job that is unique
-- until it starts holds its key until the next request with that key sees that it has
-- started.
--
-- Without a key a job writes no entry into the index. A key without unique_until is held
-- until the job is done.
alter table later_job add column unique_key text
  constraint unique_key_is_printable check (length(cast(unique_key as blob)) between 1 and 200
    and unique_key not glob '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*' and instr(unique_key, char(0)) = 0);
alter table later_job add column unique_until text
  constraint unique_until_is_done_or_started check (unique_until in ('done', 'started'));
create unique index later_job_unique on later_job (tenant, kind, unique_key) where unique_key is not null;

-- A dead job holds no key. It takes it again when it is retried.
alter table later_dead_job add column unique_key text;
alter table later_dead_job add column unique_until text;

-- Keys that are taken until a time, whatever becomes of the job.
create table later_key_window (
  tenant        text    not null,
  kind          text    not null,
  key           text    not null,
  ends_at       integer not null,
  job_id        integer not null,
  primary key (tenant, kind, key)
) strict, without rowid;
create index later_key_window_end on later_key_window (ends_at);
