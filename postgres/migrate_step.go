package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// step runs one migration, up or down. What people have built on the tables outlives
// it as far as it can: rights to single columns are kept, and where something is in
// the way the error says what.
func (s *Store) step(ctx context.Context, tx pgx.Tx, version int, name, script string) error {
	grants, err := s.columnGrants(ctx, tx)
	if err == nil {
		err = execScript(ctx, tx, s.sql(script))
	}
	if err == nil {
		err = s.grantAgain(ctx, tx, grants)
	}
	if err != nil {
		return fmt.Errorf("version %d (%s): %w", version, name, withDetail(err))
	}
	return nil
}

// readColumnGrants has the rights to single columns, each with the statement that gives
// it again. Whoever gave it, the tables' owner does then; a role that is gone gets none.
const readColumnGrants = `
select c.relname::text, a.attname::text, c.oid::text || '.' || a.attnum::text,
       format('grant %s (%I) on %I.%I to %s%s', x.privilege_type, a.attname, n.nspname, c.relname,
              case x.grantee when 0 then 'public' else quote_ident(r.rolname) end,
              case when x.is_grantable then ' with grant option' else '' end)
from pg_namespace n
join pg_class c on c.relnamespace = n.oid
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
cross join lateral aclexplode(a.attacl) x
left join pg_roles r on r.oid = x.grantee
where n.nspname = $1
  and (x.grantee = 0 or r.oid is not null)`

// readLostGrants are the statements for the columns that were made anew. In a column
// that is still the same one, a migration has changed the rights on purpose, or not at
// all.
const readLostGrants = `
select g.statement
from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as g (relation, attribute, place, statement)
join pg_namespace n on n.nspname = $1
join pg_class c on c.relnamespace = n.oid and c.relname = g.relation
join pg_attribute a on a.attrelid = c.oid and a.attname = g.attribute and a.attnum > 0 and not a.attisdropped
where c.oid::text || '.' || a.attnum::text <> g.place`

// columnGrant is one role's right to one column.
type columnGrant struct {
	Relation  string
	Column    string
	Place     string // where the column is; one that is made anew is elsewhere
	Statement string
}

func (s *Store) columnGrants(ctx context.Context, tx pgx.Tx) ([]columnGrant, error) {
	rows, err := tx.Query(ctx, readColumnGrants, s.name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[columnGrant])
}

// grantAgain gives back the rights that went with columns.
func (s *Store) grantAgain(ctx context.Context, tx pgx.Tx, grants []columnGrant) error {
	if len(grants) == 0 {
		return nil
	}
	n := len(grants)
	relations, columns, places, statements := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, g := range grants {
		relations[i], columns[i], places[i], statements[i] = g.Relation, g.Column, g.Place, g.Statement
	}
	rows, err := tx.Query(ctx, readLostGrants, s.name, relations, columns, places, statements)
	if err != nil {
		return err
	}
	lost, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(lost) == 0 {
		return err
	}
	return execScript(ctx, tx, strings.Join(lost, ";\n"))
}

// withDetail adds to a migration's error what the server says besides its message. Where
// other objects depend on what goes, the detail names them; the server's hint, to drop
// them along with it, is not for whoever runs a migration that is as it is. The detail
// of an error of data shows rows, which may hold payloads.
func withDetail(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if pg.Code == "2BP01" { // dependent objects
		return fmt.Errorf("%w: %s; nothing was changed: drop what is named there (first keep a view's text, which pg_get_viewdef shows), "+
			"migrate, and create it again", err, oneLine(pg.Detail))
	}
	if pg.Detail != "" && !strings.HasPrefix(pg.Code, "22") && !strings.HasPrefix(pg.Code, "23") {
		err = fmt.Errorf("%w: %s", err, oneLine(pg.Detail))
	}
	if pg.Hint != "" {
		err = fmt.Errorf("%w (%s)", err, oneLine(pg.Hint))
	}
	return err
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", ", ") }
