drop index later_job_tenants;
drop index later_job_scheduled;
drop index later_job_ready;
create index later_job_ready on later_job (queue, kind, priority, run_at);
