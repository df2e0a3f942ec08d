drop trigger job_added on {schema}.job;
drop function {schema}.job_added;
drop function {schema}.wake;
