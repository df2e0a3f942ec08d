package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// columns are what this program reads and writes. A test holds them against the
// migrations.
var columns = map[string][]string{
	"job": {
		"id", "run_at", "created_at", "expires_at", "cancel_at", "claimed_at", "lease_until", "lease_token",
		"attempt", "max_attempts", "timeout_ms", "failures", "crashes", "generation", "priority", "queue", "kind", "tenant",
		"lease_holder", "payload", "headers", "errors", "checkpoint", "unique_key", "unique_until",
	},
	"dead_job": {
		"id", "run_at", "created_at", "expires_at", "died_at", "attempt", "max_attempts", "timeout_ms", "failures", "crashes",
		"generation", "priority", "queue", "kind", "tenant", "reason", "error", "payload", "headers", "errors", "checkpoint",
		"unique_key", "unique_until",
	},
	"key_window": {"ends_at", "job_id", "tenant", "kind", "key"},
	"job_log": {
		"job_id", "started_at", "finished_at", "attempt", "queue", "kind", "tenant", "outcome", "worker", "error",
	},
	"worker": {
		"name", "started_at", "seen_at", "pid", "slots", "running", "host", "version", "queues", "kinds", "tenants",
	},
	"gate": {
		"scope", "name", "paused_at", "paused_by", "reason", "max_running", "rate_n", "rate_period", "rate_burst",
		"ordered", "on_dead", "weight", "set_at", "set_by",
	},
	"gate_state":   {"scope", "name", "seq", "running", "tat"},
	"gate_version": {"one", "version"},
	"status":       {"queue", "state", "count", "oldest"},
	"migration":    {"version", "name", "oldest", "applied_at"},
}

const readColumns = `
select c.relname::text, a.attname::text
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid
where n.nspname = $1 and c.relkind in ('r', 'p', 'v') and a.attnum > 0 and not a.attisdropped`

// CheckSchema implements [later.Store]: every migration of this program is
// there, every newer one says that it works with this program, and so do the
// columns themselves, whatever the version says. Workers ask when they start, so it
// goes through the store's own pool.
func (s *Store) CheckSchema(ctx context.Context) error {
	pool, err := s.runtimePool()
	if err != nil {
		return err
	}
	applied, err := s.appliedIfAny(ctx, pool)
	switch {
	case hasCode(err, "42501"): // a role that only enqueues need not see the versions
	case err != nil:
		return fmt.Errorf("check schema: %w", s.classify(err))
	default:
		if err := compareVersions(s.schema, applied); err != nil {
			return err
		}
	}
	rows, err := pool.Query(ctx, readColumns, s.name)
	if err != nil {
		return fmt.Errorf("check schema: %w", s.classify(err))
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Column string }])
	if err != nil {
		return fmt.Errorf("check schema: %w", s.classify(err))
	}
	there := map[string]bool{}
	for _, f := range found {
		there[f.Table] = true
		there[f.Table+"."+f.Column] = true
	}
	return missing(s.schema, there)
}

func compareVersions(schema string, applied []appliedMigration) error {
	newest := len(migrations)
	if len(applied) == 0 {
		return fmt.Errorf("%w: schema %s has no tables of Later; run `later migrate up`", later.ErrSchema, schema)
	}
	for _, m := range migrations {
		if !slices.ContainsFunc(applied, func(a appliedMigration) bool { return a.Version == m.Version }) {
			return fmt.Errorf("%w: schema %s lacks version %d (%s); run `later migrate up`", later.ErrSchema, schema, m.Version, m.Name)
		}
	}
	for _, a := range applied {
		if a.Version > newest && a.Oldest > newest {
			return fmt.Errorf("%w: schema %s is at version %d (%s), which needs a program that knows version %d, and this one knows version %d; install a newer one",
				later.ErrSchema, schema, a.Version, a.Name, a.Oldest, newest)
		}
	}
	return nil
}

// missing names what is not there, a whole table as one.
func missing(schema string, there map[string]bool) error {
	var lacks []string
	for table, names := range columns {
		if !there[table] {
			lacks = append(lacks, table)
			continue
		}
		for _, name := range names {
			if !there[table+"."+name] {
				lacks = append(lacks, table+"."+name)
			}
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	slices.Sort(lacks)
	return fmt.Errorf("%w: schema %s should have %s, which somebody has dropped; restore it, or migrate down and up again",
		later.ErrSchema, schema, strings.Join(lacks, ", "))
}
