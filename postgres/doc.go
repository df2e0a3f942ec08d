// Package postgres keeps jobs in PostgreSQL 12 or later.
//
// The tables live in a schema of their own, "later" unless [Config] says
// otherwise: job is the work that has not been done, dead_job what failed for
// good, job_log the finished attempts of the last days, worker who is there.
// [Store.Migrate] makes them.
//
// It needs no session state to be right: no temporary tables, no session locks that
// keep anybody away, nothing prepared that could be missed. Where it can, it listens on
// one connection of its own, whose locks show that workers wait, and sets up direct
// sessions once; behind a pooler it does neither. Behind PgBouncer in transaction mode
// connect with default_query_exec_mode=exec or cache_describe, because the
// default mode of pgx prepares statements that such a pooler loses.
package postgres
