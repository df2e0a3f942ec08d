drop index {schema}.job_put_off;
alter index {schema}.job_ready rename to job_ready_old;
create index job_ready on {schema}.job (queue, priority, kind, run_at, (id + 0));
drop index {schema}.job_ready_old;
