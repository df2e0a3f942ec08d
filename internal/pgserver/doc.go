// Package pgserver starts real PostgreSQL and PgBouncer servers of one's own, for
// tests and for the chaos program.
//
// Servers listen on 127.0.0.1 only, keep everything in one folder, and die with the
// process that started them where the system allows it (Linux). Nothing of the
// machine's own PostgreSQL is touched.
package pgserver
