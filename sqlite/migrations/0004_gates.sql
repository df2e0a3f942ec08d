-- oldest program: 1
--
-- Gates: what holds jobs back together. A scope has a row if it is paused, or limited, or both.
-- A program from before this migration does not know of them: it claims what is paused, and
-- heeds no limit.
--
-- The constraints refuse what no worker could go by. They never refuse what the Go library has
-- accepted.
create table later_gate (
  scope          text not null constraint later_gate_scope check (scope in ('queue', 'kind', 'tenant', 'tenants')),
  name           text not null constraint later_gate_name check ((name = '') = (scope = 'tenants')),
  paused_at      integer, -- milliseconds since 1970; null: it is not paused
  paused_by      text,
  reason         text,
  max_running    integer constraint later_gate_max_running check (max_running between 0 and 10000),
  rate_n         integer constraint later_gate_rate_n check (rate_n between 1 and 1000000),
  rate_period_us integer constraint later_gate_rate_period check (rate_period_us between 1000 and 31536000000000),
  rate_burst     integer not null default 0 constraint later_gate_rate_burst check (rate_burst between 0 and 1000000), -- 0 is 1
  ordered        integer not null default 0 constraint later_gate_ordered check (ordered in (0, 1)),
  on_dead        text not null default '' constraint later_gate_on_dead check (on_dead in ('', 'blocks')),
  weight         integer not null default 0 constraint later_gate_weight check (weight between 0 and 1000), -- 0 is 1
  set_at         integer, -- when the limit was set; null: there is none
  set_by         text,
  primary key (scope, name),
  constraint later_gate_pause check ((paused_at is null) = (paused_by is null) and (paused_at is null or scope <> 'tenants')),
  constraint later_gate_limit check ((set_at is null) = (set_by is null)
    and (set_at is not null or max_running is null and rate_n is null and ordered = 0 and weight = 0)),
  constraint later_gate_rate check ((rate_n is null) = (rate_period_us is null)
    and (rate_n is null or rate_n <= rate_period_us
      and max(rate_burst, 1) * ((rate_period_us + rate_n - 1) / rate_n) <= 31536000000000)),
  constraint later_gate_order check (ordered = 0 and on_dead = '' or ordered = 1 and (max_running is null or max_running = 1)),
  constraint later_gate_turn check (weight = 0 or scope = 'tenant')
) strict, without rowid;

-- One row, with a number that is another one after each change of the gates: what a claim looks
-- at to know whether those that it remembers still hold. It is drawn and not counted, so that a
-- transaction that is taken back does not leave its number to another one.
create table later_gate_version (
  one     integer primary key constraint later_gate_version_one check (one = 1),
  version integer not null
) strict;
insert into later_gate_version (one, version) values (1, 0);
create trigger later_gate_inserted after insert on later_gate begin update later_gate_version set version = random(); end;
create trigger later_gate_updated after update on later_gate begin update later_gate_version set version = random(); end;
create trigger later_gate_deleted after delete on later_gate begin update later_gate_version set version = random(); end;

-- What is remembered of a limited scope that has let something in. Whether that still runs is
-- read from the jobs, so nothing here has to be put right after a crash.
create table later_gate_state (
  scope     text not null,
  name      text not null,
  running   text not null default '[]' -- the ids of the jobs that were let in, as JSON, the latest one last
    constraint later_gate_state_running check (json_valid(running) and json_type(running) = 'array'),
  tat_us    integer, -- when the next start would be if all were spread evenly, in microseconds; null: none yet
  primary key (scope, name)
) strict, without rowid;

-- Whose jobs a worker runs, as JSON; null: all.
alter table later_worker add column tenants text;
