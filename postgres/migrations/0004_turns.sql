-- oldest program: 1
-- Tenants take turns: in the index that claims go through, the tenant stands in front of
-- run_at, so that a claim finds the next tenant with one probe, and each tenant's first job
-- with another, whatever waits.
--
-- A program from before this migration still works beside it; where many thousand jobs
-- wait, slowly, because it reads all of a kind to find the first.

alter index {schema}.job_ready rename to job_ready_old;
create index job_ready on {schema}.job (queue, priority, kind, tenant, run_at, (id + 0));
drop index {schema}.job_ready_old;

-- For the question when the next job is due, whatever tenants and priorities there are. Only
-- jobs that were put off are in it: scheduled, retried, snoozed.
create index job_put_off on {schema}.job (queue, kind, run_at) where run_at > created_at;
