drop view later_dead_job_readable;
drop view later_job_readable;
drop view later_running;
drop view later_status;
drop table later_worker;
drop table later_job_log;
drop table later_dead_job;
drop table later_job;
