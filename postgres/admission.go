package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/admit"
)

// Jobs under a limit are let in by a transaction that holds the limit's lock. Its first statement
// takes the locks that are free, without waiting; the second, whose snapshot is newer, reads what
// was let in before and whether that still runs; then jobs are claimed, and what was let in is
// written. (In one statement the count would be older than the lock: two claims
// would both find the last place free.) Whether a job runs is read from its lease, so nothing
// has to be written when it ends, and a crash frees its places when its leases end.

// chosenJob is a job that may start although the limit may have no room.
type chosenJob struct {
	id                  int64
	queue, kind, tenant string
}

// heldGate is a limit with what is remembered of it.
type heldGate struct {
	admit.Gate
	scope later.Scope
	seq   int64
	now   time.Time
	// ended had a place until their leases ended: it is theirs until somebody needs it. unseen
	// fill a place, but a claim whose answer was lost has their leases: they may be given again.
	ended  []int64
	unseen []chosenJob
	// recent are those that were let in lately, if there is no cap.
	recent []int64
	// heads are the jobs of an ordered scope of which one may start next although it fills the
	// place. There are several only where they ran when the order was set.
	heads []chosenJob
	runs  bool // one of an ordered scope does
	// lapsed are those of an ordered scope whose leases have ended: they wait, and hold back.
	lapsed []int64
	// headDue is when the first head may start, if it waits; zero: it runs, or is dead.
	headDue time.Time
	let     bool // somebody was let in
	started bool // and has a new place
}

// room is how many jobs may start that were not let in before. One whose claim's answer was lost
// fills its place.
func (g *heldGate) room() int {
	room := g.Room(g.now)
	if most, capped := g.Limit.Cap(); capped {
		room = min(room, max(most-len(g.Running)-len(g.unseen), 0))
	}
	return room
}

// chosen are the heads of an ordered scope, if one of them may start.
func (g *heldGate) chosen() []chosenJob {
	if g.runs || len(g.unseen) > 0 || len(g.heads) == 0 || !g.Lets(g.heads[0].id, g.now) {
		return nil
	}
	return g.heads
}

// recheck is after how long what the gate holds back may be let in.
func (g *heldGate) recheck() time.Duration {
	wait := gateRecheck
	if next := g.Next(g.now); !next.IsZero() {
		wait = next.Sub(g.now)
	} else if !g.runs && !g.headDue.IsZero() {
		wait = g.headDue.Sub(g.now)
	}
	return max(wait, time.Millisecond)
}

// admission is a transaction that holds the locks of limits.
type admission struct {
	store *Store
	conn  *pgxpool.Conn
	gates map[later.Scope]*heldGate // those whose lock it has
	ends  uint64                    // of [holding], from before the gates were read
}

// maxRecent bounds what a rate remembers. Chosen: a claim whose answer was lost is made again at
// once; if more have started meanwhile, its jobs are had when their leases have ended.
const maxRecent = 500

// stateArgs are the parameters of readStates.
func stateArgs(set *gateSet, scopes []later.Scope, unanswered []int64) []any {
	n := len(scopes)
	ofs, names := make([]string, n), make([]string, n)
	ordered, blocks, capped := make([]bool, n), make([]bool, n), make([]bool, n)
	for i, scope := range scopes {
		limit := set.limits.Of(scope)
		ofs[i], names[i] = string(scope.Of), scope.Name
		ordered[i], blocks[i] = limit.Ordered, limit.OnDead == later.DeadBlocks
		_, capped[i] = limit.Cap()
	}
	return []any{ofs, names, ordered, blocks, int32(later.SuspectCrashes), append([]int64{}, unanswered...), capped}
}

// stateRow is a row of readStates.
type stateRow struct {
	Nr     int32
	Seq    int64
	TAT    *time.Time
	Now    time.Time
	ID     *int64
	Stands *string
	RunAt  *time.Time
	Due    *bool
	Queue  *string
	Kind   *string
	Tenant *string
	Recent []int64
}

// gatesOf puts rows of readStates together.
func gatesOf(set *gateSet, scopes []later.Scope, rows []stateRow) map[later.Scope]*heldGate {
	gates := map[later.Scope]*heldGate{}
	for _, r := range rows {
		scope := scopes[r.Nr-1]
		g := gates[scope]
		if g == nil {
			g = &heldGate{Gate: admit.Gate{Limit: set.limits.Of(scope), TAT: timeOrZero(r.TAT)}, scope: scope, seq: r.Seq, now: r.Now.UTC(), recent: r.Recent}
			gates[scope] = g
		}
		if r.ID == nil {
			continue
		}
		switch stands := *r.Stands; {
		case stands == "unseen":
			g.unseen = append(g.unseen, chosenJob{*r.ID, *r.Queue, *r.Kind, *r.Tenant})
		case g.Limit.Ordered:
			g.Running = append(g.Running, *r.ID)
			g.runs = g.runs || stands == "runs"
			if stands == "ended" {
				g.lapsed = append(g.lapsed, *r.ID)
			}
			if *r.Due {
				g.heads = append(g.heads, chosenJob{*r.ID, *r.Queue, *r.Kind, *r.Tenant})
			}
			if at := r.RunAt.UTC(); stands == "waits" && (g.headDue.IsZero() || at.Before(g.headDue)) {
				g.headDue = at
			}
		case stands == "runs":
			g.Running = append(g.Running, *r.ID)
		default:
			g.ended = append(g.ended, *r.ID)
		}
	}
	return gates
}

// standings reads how it stands with limits, without their locks.
func (s *Store) standings(ctx context.Context, set *gateSet, scopes []later.Scope, unanswered []int64) (map[later.Scope]*heldGate, error) {
	rows, err := query(ctx, s, statement{
		name: "look at limits", sql: strings.Replace(readStates, "{which}", "true", 1), args: stateArgs(set, scopes, unanswered),
	}, pgx.RowToStructByPos[stateRow])
	if err != nil {
		return nil, err
	}
	return gatesOf(set, scopes, rows), nil
}

// admit begins an admission with the locks of those scopes that are free, or of all, if it is to
// wait; these must come in an order that all callers share. Its end must be called.
func (s *Store) admit(ctx context.Context, set *gateSet, scopes []later.Scope, unanswered []int64, wait bool) (a *admission, err error) {
	pool, err := s.runtimePool()
	if err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.leave(ctx, conn, err)
			conn.Release()
		}
	}()
	ends := s.holding.counted()
	args := stateArgs(set, scopes, unanswered)
	lock := lockGates
	if wait {
		lock = awaitGates
	}
	batch := &pgx.Batch{}
	batch.Queue(begin)
	batch.Queue(plan)
	batch.Queue(boundIdle, admissionIdle)
	batch.Queue(s.sql(lock), args[:2]...)
	batch.Queue(s.sql(strings.Replace(readStates, "{which}", isLocked, 1)), args...)
	replies := conn.SendBatch(ctx, batch)
	for range 4 {
		if _, err = replies.Exec(); err != nil {
			break
		}
	}
	var rows []stateRow
	if err == nil {
		var found pgx.Rows
		if found, err = replies.Query(); err == nil {
			rows, err = pgx.CollectRows(found, pgx.RowToStructByPos[stateRow])
		}
	}
	if closing := replies.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	return &admission{store: s, conn: conn, gates: gatesOf(set, scopes, rows), ends: ends}, nil
}

// end gives up what was not committed.
func (a *admission) end(ctx context.Context) {
	if a.conn == nil {
		return
	}
	if a.conn.Conn().PgConn().TxStatus() != 'I' && !a.conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if _, err := a.conn.Exec(ctx, "rollback"); err != nil {
			closeConn(ctx, a.conn)
		}
	}
	a.conn.Release()
	a.conn = nil
}

// placeKept is that a job whose lease had ended keeps its place, which was given to another one: it
// has got a new lease meanwhile, or somebody has locked its row. Whoever gave the place begins anew.
type placeKept struct {
	scope later.Scope
	ends  uint64 // of the admission
}

func (e *placeKept) Error() string {
	return fmt.Sprintf("a place under the limit of %v is kept by the job that had it", e.scope)
}

// fence takes their leases for good from jobs whose leases had ended, as far as their places are
// needed for those that were let in.
func (a *admission) fence(ctx context.Context) error {
	for _, g := range a.gates {
		most, capped := g.Limit.Cap()
		needed := len(g.Running) + len(g.unseen) + len(g.ended) - most
		ended := g.ended
		if g.Limit.Ordered { // none but the one that starts may have a lease
			ended, needed = g.lapsed, len(g.lapsed)
		}
		if !g.started || !capped || len(ended) == 0 || needed <= 0 {
			continue
		}
		rows, err := a.conn.Query(ctx, a.store.sql(fenceEnded), ended, needed)
		if err != nil {
			return err
		}
		fenced, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		if len(fenced) < min(needed, len(ended)) {
			return &placeKept{g.scope, a.ends}
		}
		g.ended = slices.DeleteFunc(g.ended, func(id int64) bool { return slices.Contains(fenced, id) })
	}
	return nil
}

// let notes that a job starts.
func (a *admission) let(set *gateSet, job *later.Claimed) {
	for _, scope := range set.limits.Over(job.Queue, job.Kind, job.Tenant) {
		g := a.gates[scope]
		if g == nil {
			continue
		}
		g.let = true
		unseen := len(g.unseen)
		g.unseen = slices.DeleteFunc(g.unseen, func(had chosenJob) bool { return had.id == job.ID })
		if len(g.unseen) < unseen { // its start was counted already
			g.Running = append(g.Running, job.ID)
			continue
		}
		g.started = true
		g.recent = append(slices.DeleteFunc(g.recent, func(id int64) bool { return id == job.ID }), job.ID)
		g.ended = slices.DeleteFunc(g.ended, func(id int64) bool { return id == job.ID })
		g.lapsed = slices.DeleteFunc(g.lapsed, func(id int64) bool { return id == job.ID })
		g.Let(g.now, job.ID)
	}
}

// commit writes what was let in, and ends the transaction.
func (a *admission) commit(ctx context.Context) error {
	if err := a.fence(ctx); err != nil {
		return err
	}
	return a.write(ctx)
}

func (a *admission) write(ctx context.Context) error {
	var ofs, names, running []string
	var seqs []int64
	var tats []*time.Time
	for _, g := range a.gates {
		if !g.let {
			continue
		}
		ofs, names, seqs = append(ofs, string(g.scope.Of)), append(names, g.scope.Name), append(seqs, g.seq)
		ids := slices.Concat(g.Running, g.ended)
		if _, capped := g.Limit.Cap(); !capped {
			ids = g.recent[max(len(g.recent)-maxRecent, 0):]
		}
		for _, job := range g.unseen {
			if !slices.Contains(ids, job.id) {
				ids = append(ids, job.id)
			}
		}
		running = append(running, arrayText(ids))
		tats = append(tats, orNil(g.TAT))
	}
	batch := &pgx.Batch{}
	if len(ofs) > 0 {
		batch.Queue(a.store.sql(writeStates), ofs, names, seqs, running, tats)
	}
	batch.Queue("commit")
	return a.conn.SendBatch(ctx, batch).Close()
}

// arrayText is an array of ids as the server reads it.
func arrayText(ids []int64) string {
	text := []byte{'{'}
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, id, 10)
	}
	return string(append(text, '}'))
}
