package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// leave implements place. The connections of the run may be broken, so it makes
// one of its own.
func (p *postgresPlace) leave(ctx context.Context) error {
	p.close(ctx)
	return p.drop(ctx)
}

func (p *postgresPlace) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, conn := range []*pgx.Conn{p.guard, p.probe} {
		if conn != nil {
			_ = conn.Close(ctx) // one that is broken has told that elsewhere
		}
	}
}

func (p *postgresPlace) drop(ctx context.Context) error {
	conn, err := connect(ctx, p.cfg.URL, probeName)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return dropSchema(ctx, conn, p.schema)
}

// dropSchema drops a schema of a run, whatever the server's time limits are.
func dropSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	return unavailable(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"set local statement_timeout = 0",
			"set local lock_timeout = '30s'",
			"drop schema if exists " + pgx.Identifier{schema}.Sanitize() + " cascade",
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Who drops a schema needs the rights of its owner, and none on what is in it.
const findLeftovers = `
select n.nspname, pg_get_userbyid(n.nspowner), not pg_has_role(n.nspowner, 'USAGE'),
       coalesce((select sum(pg_total_relation_size(c.oid)) from pg_class as c where c.relnamespace = n.oid and c.relkind in ('r', 'm')), 0)::bigint,
       coalesce(split_part(obj_description(n.oid, 'pg_namespace'), $4, 2), '') collate "C" > to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
from pg_namespace as n
where n.nspname ~ $1 and starts_with(obj_description(n.oid, 'pg_namespace'), $2) and n.nspname <> $3
order by 1`

func (p *postgresPlace) leftovers(ctx context.Context) ([]Leftover, error) {
	return schemasLeft(ctx, p.probe, p.schema)
}

// schemasLeft lists the schemas of runs, but for one. A run that goes on has a lock
// on its schema's name; one behind a pooler has written until when it may take.
func schemasLeft(ctx context.Context, conn *pgx.Conn, but string) ([]Leftover, error) {
	rows, err := conn.Query(ctx, findLeftovers, "^"+schemaPrefix+"[a-z0-9]{12}$", schemaComment, but, schemaUntil)
	if err != nil {
		return nil, unavailable(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Leftover, err error) {
		err = row.Scan(&l.Name, &l.Owner, &l.Foreign, &l.Bytes, &l.InUse)
		return l, err
	})
	if err != nil {
		return nil, unavailable(err)
	}
	for i := range found {
		var free bool
		err := conn.QueryRow(ctx, "select pg_try_advisory_xact_lock(hashtextextended($1::text, 0))", found[i].Name).Scan(&free)
		if err != nil {
			return nil, unavailable(err)
		}
		found[i].InUse = found[i].InUse || !free
	}
	if found == nil {
		found = []Leftover{}
	}
	return found, nil
}

// cleanPostgres drops what killed runs have left, where it may.
func cleanPostgres(ctx context.Context, cfg Config) ([]Leftover, error) {
	conn, err := connect(ctx, cfg.URL, probeName)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	left, err := schemasLeft(ctx, conn, "")
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		if l.InUse || l.Foreign {
			continue
		}
		if err := dropSchema(ctx, conn, l.Name); err != nil {
			return nil, fmt.Errorf("remove schema %s: %w", l.Name, err)
		}
	}
	return left, nil
}
