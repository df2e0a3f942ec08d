-- oldest program: 1
--
-- Gates: what holds jobs back together. A program from before this migration does not know of
-- them: it claims what is paused.
create table later_gate (
  scope     text not null constraint later_gate_scope check (scope in ('queue', 'kind', 'tenant')),
  name      text not null constraint later_gate_name check (name <> ''),
  paused_at integer, -- milliseconds since 1970; null: it is not paused
  paused_by text,
  reason    text,
  primary key (scope, name),
  constraint later_gate_pause check ((paused_at is null) = (paused_by is null))
) strict, without rowid;
