package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

const (
	// proofTime is how long a notification to oneself may take. Chosen: a busy server
	// takes milliseconds.
	proofTime = 5 * time.Second
	// proofEvery is how often it is tried. It bounds how long a connection that is dead
	// without showing it goes unnoticed. Chosen.
	proofEvery = time.Minute
	// connectTime is how long connecting may take. Chosen: as [Open] has it.
	connectTime = 10 * time.Second
	// noncePrefix begins what is no queue's name.
	noncePrefix = "!"
)

// Why nothing is heard although the connection may be well.
var (
	errDeaf = errors.New("a notification to oneself did not arrive in time, as behind PgBouncer in transaction mode; " +
		"set ListenURL to a direct connection, or NoListen")
	errOff = errors.New("nobody notifies: later.wake is off, or the server allows two-phase commits (max_prepared_transactions) and it is not on; " +
		"set it, or NoListen")
	errQueueFull = errors.New("nobody notifies: the server's queue of notifications is half full; " +
		"some session listens and does not end its transaction")
)

// isDeaf reports whether it will probably be the same next time.
func isDeaf(err error) bool { return errors.Is(err, errDeaf) || errors.Is(err, errOff) }

// saysNothing reports whether a proof that could not be sent leaves open what the next
// one will show.
func saysNothing(err error) bool { return !errors.Is(err, errOff) && !errors.Is(err, errQueueFull) }

// listenSession has the session outlive what roles and databases set, and end soon when
// the client is gone without a word: until then those who enqueue take it for a worker
// that waits. Versions differ in what they have of it.
const listenSession = `
select set_config(s.name, v.value, false)
from (values
  ('statement_timeout', '0'), ('lock_timeout', '0'), ('idle_session_timeout', '0'), ('transaction_timeout', '0'),
  ('idle_in_transaction_session_timeout', '0'), ('default_transaction_isolation', 'read committed'),
  ('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '3')
) as v (name, value)
join pg_settings s on s.name = v.name`

// proveHearing notifies oneself, unless those who enqueue would not, and counts who waits.
const proveHearing = `
select
  case
    when not case current_setting('later.wake', true)
      when 'on' then true
      when 'off' then false
      else current_setting('max_prepared_transactions') = '0'
    end then 'off'
    when pg_notification_queue_usage() >= 0.5 then 'full'
    else coalesce(pg_notify($1, $2)::text, '')
  end,
  (select count(*)::int
   from pg_locks
   where locktype = 'advisory' and objsubid = 2 and granted
     and database = (select oid from pg_database where datname = current_database())
     and classid = hashtext('later waits {schema}')::oid and objid = 0)`

// The locks are those that the function job_added looks for.
const (
	lockQueues = `
select pg_advisory_lock_shared(hashtext('later waits {schema}'), case key when '' then 0 when '*' then 1 else hashtext(key) end)
from unnest($1::text[]) as k (key)`
	unlockQueues = `
select pg_advisory_unlock_shared(hashtext('later waits {schema}'), case key when '' then 0 when '*' then 1 else hashtext(key) end)
from unnest($1::text[]) as k (key)`
)

// channel is the name of the schema's channel: short and plain, whatever the schema's
// name is. The function job_added makes the same.
func channel(quotedSchema string) string {
	sum := sha256.Sum256([]byte(quotedSchema))
	return "later_" + hex.EncodeToString(sum[:])[:16]
}

// hearing is one connection of an ear. Its fields belong to ear.mu, but for those that
// only its goroutine uses.
type hearing struct {
	ear *ear

	proven    bool     // a notification has arrived, so others will
	held      []string // the locks, sorted
	dirty     bool     // look what is wanted before waiting
	interrupt context.CancelFunc
	changed   chan struct{} // closed and replaced when proven or held changes
	peers     int           // processes that wait, this one included
	proof     proof
}

// proof is a notification to oneself under way.
type proof struct {
	nonce string
	at    time.Time // when the next one is due, or, while there is a nonce, when it is too late
	sent  error     // why it could not be sent
}

// holds reports whether those who enqueue know that w waits.
func (h *hearing) holds(w *watch) bool {
	for _, key := range w.keys() {
		if _, ok := slices.BinarySearch(h.held, key); !ok {
			return false
		}
	}
	return true
}

// await has the connection see that the watches have changed, and waits for what comes
// of it. Call it with the lock held, which it gives back while it waits.
func (h *hearing) await(ctx context.Context) error {
	changed := h.changed
	h.kick()
	h.ear.mu.Unlock()
	defer h.ear.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hearing) kick() {
	h.dirty = true
	if h.interrupt != nil {
		h.interrupt()
	}
}

// tell wakes those who await a change.
func (h *hearing) tell() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// session connects, listens until the connection ends or proves deaf, and returns why.
func (h *hearing) session(ctx context.Context) error {
	conn, err := h.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if !h.proven && !conn.IsClosed() {
			_, _ = conn.Exec(ctx, "unlisten *") // a pooler's session may live on
		}
		_ = conn.Close(ctx) // it is given up either way
	}()
	if err := h.exec(ctx, conn, "listen "+channel(h.ear.store.schema)); err != nil {
		return err
	}
	proving, cancel := context.WithCancel(ctx)
	sending := make(chan struct{})
	close(sending)
	defer func() {
		cancel()
		<-sending
	}()
	for {
		if h.proofDue() {
			<-sending // ended long ago
			sending = make(chan struct{})
			go func(done chan struct{}, nonce string) {
				defer close(done)
				h.send(proving, nonce)
			}(sending, h.proof.nonce)
		}
		if err := h.update(ctx, conn); err != nil {
			return err
		}
		wait, cancel, ok := h.next(ctx)
		if !ok {
			continue
		}
		notification, err := conn.WaitForNotification(wait)
		ended := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if err := h.hear(ctx, conn, notification.Payload); err != nil {
				return err
			}
		case !ended || conn.IsClosed():
			return fmt.Errorf("listen: %w", err)
		}
		if err := h.judge(); err != nil {
			return err
		}
	}
}

// connect makes a connection as the pool does, but for itself.
func (h *hearing) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	pool := h.ear.store.pool.Config()
	cfg := pool.ConnConfig
	switch {
	case h.ear.direct != nil:
		cfg = h.ear.direct.Copy()
	case pool.BeforeConnect != nil:
		if err := pool.BeforeConnect(ctx, cfg); err != nil {
			return nil, err
		}
	}
	// Waiting for notifications is interrupted often, and that must not end the connection.
	cfg.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	cfg.OnNotification = nil
	if cfg.RuntimeParams == nil {
		cfg.RuntimeParams = map[string]string{}
	}
	cfg.RuntimeParams["application_name"] = strings.TrimSpace(cfg.RuntimeParams["application_name"] + " later listen")
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to listen: %w", h.ear.store.classify(err))
	}
	return conn, nil
}

// exec runs a statement that takes no time on a connection that is well.
func (h *hearing) exec(ctx context.Context, conn *pgx.Conn, statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, h.ear.proofTime)
	defer cancel()
	if _, err := conn.Exec(ctx, statement, args...); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// proofDue begins a proof if it is time.
func (h *hearing) proofDue() bool {
	h.ear.mu.Lock()
	defer h.ear.mu.Unlock()
	if h.proof.nonce != "" || time.Until(h.proof.at) > 0 {
		return false
	}
	h.proof = proof{nonce: noncePrefix + rand.Text(), at: time.Now().Add(h.ear.proofTime)}
	return true
}

// send is the other end of a proof: another connection, as those who enqueue have.
func (h *hearing) send(ctx context.Context, nonce string) {
	ctx, cancel := context.WithTimeout(ctx, h.ear.proofTime)
	defer cancel()
	type answer struct {
		Not   string // why it was not sent, or empty
		Peers int
	}
	h.ear.mu.Lock()
	counted := len(h.held) > 0
	h.ear.mu.Unlock()
	rows, err := query(ctx, h.ear.store, statement{
		name: "notify oneself", sql: proveHearing, args: []any{channel(h.ear.store.schema), nonce},
	}, pgx.RowToStructByPos[answer])
	if err == nil && len(rows) == 1 && rows[0].Not != "" {
		err = map[string]error{"off": errOff, "full": errQueueFull}[rows[0].Not]
	}
	h.ear.mu.Lock()
	defer h.ear.mu.Unlock()
	if err != nil && h.proof.nonce == nonce {
		h.proof.sent = err
		h.kick()
		return
	}
	if len(rows) == 1 {
		h.peers = rows[0].Peers
		if !counted {
			h.peers++
		}
	}
}

// judge is the error of a proof that failed. One that could not be sent says nothing
// about a connection that was well: it is tried again soon.
func (h *hearing) judge() error {
	h.ear.mu.Lock()
	defer h.ear.mu.Unlock()
	switch {
	case h.proof.nonce == "":
	case h.proof.sent != nil && h.proven && saysNothing(h.proof.sent):
		h.proof = proof{at: time.Now().Add(h.ear.proofTime)}
	case h.proof.sent != nil:
		return h.proof.sent
	case time.Until(h.proof.at) <= 0:
		return errDeaf
	}
	return nil
}

// hear deals with a notification.
func (h *hearing) hear(ctx context.Context, conn *pgx.Conn, payload string) error {
	h.ear.mu.Lock()
	defer h.ear.mu.Unlock()
	if !strings.HasPrefix(payload, noncePrefix) {
		h.ear.heard(payload, h.peers)
		return nil
	}
	if payload != h.proof.nonce {
		return nil // another process's
	}
	h.proof = proof{at: time.Now().Add(h.ear.proofEvery/2 + mathrand.N(h.ear.proofEvery))}
	if h.proven {
		return nil
	}
	h.ear.mu.Unlock()
	err := h.exec(ctx, conn, listenSession)
	h.ear.mu.Lock()
	if err != nil {
		return err
	}
	h.ear.prove(h)
	return nil
}

// update takes and gives back locks as the watches want it.
func (h *hearing) update(ctx context.Context, conn *pgx.Conn) error {
	h.ear.mu.Lock()
	h.dirty = false
	if !h.proven {
		h.ear.mu.Unlock()
		return nil
	}
	wanted, held := h.ear.wanted(), h.held
	h.ear.mu.Unlock()
	for _, step := range []struct {
		sql  string
		keys []string
	}{{lockQueues, minus(wanted, held)}, {unlockQueues, minus(held, wanted)}} {
		if len(step.keys) == 0 {
			continue
		}
		if err := h.exec(ctx, conn, h.ear.store.sql(step.sql), step.keys); err != nil {
			return err
		}
	}
	h.ear.mu.Lock()
	defer h.ear.mu.Unlock()
	h.held = wanted
	h.tell()
	return nil
}

// minus are the elements of a that b has not. Both are sorted.
func minus(a, b []string) []string {
	var rest []string
	for _, key := range a {
		if _, ok := slices.BinarySearch(b, key); !ok {
			rest = append(rest, key)
		}
	}
	return rest
}

// next is a context for one wait: until something is due, or somebody kicks. ok is false
// when there is something to do at once.
func (h *hearing) next(ctx context.Context) (wait context.Context, cancel context.CancelFunc, ok bool) {
	h.ear.mu.Lock()
	defer h.ear.mu.Unlock()
	if h.dirty {
		return nil, nil, false
	}
	wait, cancel = context.WithDeadline(ctx, h.proof.at)
	h.interrupt = cancel
	return wait, cancel, true
}
