package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// What Server.Pooler says.
const (
	poolerNone        = "none"
	poolerSession     = "session"
	poolerTransaction = "transaction"
)

// poolerTimeout is how long findPooler waits for two transactions beside each other.
// Chosen: a pool that has room for them gives them at once.
const poolerTimeout = 10 * time.Second

// findPooler tells a pooler by the process of the connection: a pooler gives a
// number of its own. In transaction mode a second transaction may be on another
// connection of the server: the guard's, which was given back last.
func (p *postgresPlace) findPooler(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, poolerTimeout)
	defer cancel()
	var first, second, again int
	pid := func(conn *pgx.Conn, sql string, to *int) func() error {
		return func() error {
			if _, err := conn.Exec(looking, sql); err != nil || to == nil {
				return err
			}
			return conn.QueryRow(looking, "select pg_backend_pid()").Scan(to)
		}
	}
	for _, step := range []func() error{
		pid(p.probe, "begin", &first), pid(p.guard, "begin", &second),
		pid(p.probe, "commit", nil), pid(p.guard, "commit", nil),
		pid(p.probe, "begin", &again), pid(p.probe, "commit", nil),
	} {
		err := step()
		if looking.Err() != nil && ctx.Err() == nil {
			return refused("two connections beside each other are needed, and the second did not come in %v; a pooler must give this database at least two (PgBouncer: default_pool_size)", poolerTimeout)
		}
		if err != nil {
			return unavailable(err)
		}
	}
	switch {
	case int(p.probe.PgConn().PID()) == first:
		p.pooler = poolerNone
	case again != first:
		p.pooler = poolerTransaction
	default:
		p.pooler = poolerSession
	}
	return nil
}
