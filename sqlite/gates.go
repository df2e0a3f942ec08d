package sqlite

import (
	"database/sql"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
)

const (
	selectGateVersion = `select version from later_gate_version`

	selectGates = `
select scope, name, paused_at is not null, set_at is not null, ` + limitColumns + `
from later_gate`

	limitColumns = `max_running, rate_n, rate_period_us, rate_burst, ordered, on_dead, weight`
)

// gates are what is paused and what is limited. They are not changed once they are read.
type gates struct {
	version int64
	paused  pauses
	limits  *admit.Limits // nil: nothing is limited
}

// gatesOf returns the gates that hold in a transaction of the writer: those that are
// remembered if they have not changed since. Version 0 is that of tables in which there never
// were any.
func (s *Store) gatesOf(tx transaction) (*gates, error) {
	var version int64
	if err := tx.queryRow(selectGateVersion).Scan(&version); err != nil {
		return nil, err
	}
	if s.gates.version == version {
		return s.gates, nil
	}
	g, err := readGates(tx)
	if err != nil {
		return nil, err
	}
	g.version = version
	clear(s.dueTenants) // they leave out those that were paused
	s.gates = g
	return g, nil
}

// readGates reads all gates.
func readGates(q querier) (*gates, error) {
	rows, err := q.query(selectGates)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	g := &gates{}
	limits := map[later.Scope]later.Limit{}
	for rows.Next() {
		var scope later.Scope
		var paused, limited bool
		var l limitRow
		if err := rows.Scan(append([]any{&scope.Of, &scope.Name, &paused, &limited}, l.targets()...)...); err != nil {
			return nil, err
		}
		if paused {
			if g.paused == nil {
				g.paused = pauses{}
			}
			g.paused[scope.Of] = append(g.paused[scope.Of], scope.Name)
		}
		if limited {
			limits[scope] = l.value()
		}
	}
	if len(limits) > 0 {
		g.limits = admit.NewLimits(limits)
	}
	return g, rows.Err()
}

// limitRow scans limitColumns.
type limitRow struct {
	maxRunning sql.NullInt64
	rateN      sql.NullInt64
	ratePeriod sql.NullInt64
	limit      later.Limit
}

func (r *limitRow) targets() []any {
	l := &r.limit
	return []any{&r.maxRunning, &r.rateN, &r.ratePeriod, &l.Rate.Burst, &l.Ordered, &l.OnDead, &l.Weight}
}

func (r *limitRow) value() later.Limit {
	l := r.limit
	if r.maxRunning.Valid {
		n := int(r.maxRunning.Int64)
		l.MaxRunning = &n
	}
	l.Rate.N, l.Rate.Period = int(r.rateN.Int64), time.Duration(r.ratePeriod.Int64)*time.Microsecond
	if l.Rate.N == 0 {
		l.Rate = later.Rate{}
	}
	return l
}

// limitArgs are limitColumns of a limit. A period is rounded up to a microsecond, which leaves
// the time between two starts as it is ([later.Rate.Every]).
func limitArgs(l later.Limit) []any {
	var most, n, period any
	if l.MaxRunning != nil {
		most = *l.MaxRunning
	}
	if l.Rate.N != 0 {
		n, period = l.Rate.N, int64((l.Rate.Period+time.Microsecond-1)/time.Microsecond)
	}
	return []any{most, n, period, l.Rate.Burst, l.Ordered, string(l.OnDead), l.Weight}
}
