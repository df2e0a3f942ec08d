drop table later_key_window;
alter table later_dead_job drop column unique_until;
alter table later_dead_job drop column unique_key;
drop index later_job_unique;
alter table later_job drop column unique_until;
alter table later_job drop column unique_key;
