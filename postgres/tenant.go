package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
)

// DefaultTenantSetting is the setting in which policies find the tenant when
// Config.TenantSetting is empty.
const DefaultTenantSetting = "later.tenant"

// rollbackBound bounds the rollback after a function that failed, whose context may
// have ended; what takes longer ends with its connection. Chosen, not measured.
const rollbackBound = 5 * time.Second

// TenantTx runs fn in a transaction in which row-level security sees the job's tenant:
// until it ends, and on no other connection, current_setting('later.tenant', true) is
// that tenant. When fn returns nil it is committed. When fn returns an error, which
// TenantTx then returns as it is, or panics, or ends its goroutine, it is rolled back.
//
// fn does not end tx itself. To end the job together with its effects, fn calls
// [Store.DoneTx] last, with the same tx and job.
//
// Its connection comes from Config.TenantPool. A role that no policy binds, a superuser
// or one with BYPASSRLS, is an error, and fn is not called. Tables whose owner the role
// is, and whose policies do not bind their owner, are named in a warning, once.
//
// A job without a tenant is an error that matches [later.ErrInvalid]: its policies would
// show fn nothing, and doing nothing would look like success. Such a job has a
// transaction of the handler's own.
func (s *Store) TenantTx(ctx context.Context, job later.Held, fn func(tx pgx.Tx) error) error {
	if err := checkTenantTx(job, fn != nil); err != nil {
		return err
	}
	pool, err := s.tenantPool()
	if err != nil {
		return tenantError(job, err)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return tenantError(job, s.classify(err))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackBound)
		defer cancel()
		_ = tx.Rollback(ctx) // when it fails the connection is closed, which undoes tx as well
	}()
	if err := s.SetTenantTx(ctx, tx, job.HeldTenant()); err != nil {
		return tenantError(job, err)
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return tenantError(job, s.classify(endedEarly(ctx, err)))
	}
	return nil
}

// TenantSQLTx is [Store.TenantTx] for database/sql, whatever its driver, and for what is
// built on it. The role is that of db.
func (s *Store) TenantSQLTx(ctx context.Context, db *sql.DB, job later.Held, fn func(tx *sql.Tx) error) error {
	if err := checkTenantTx(job, fn != nil); err != nil {
		return err
	}
	if db == nil {
		return errors.New("tenant transaction: the database is nil")
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return tenantError(job, s.classify(err))
	}
	defer func() { _ = tx.Rollback() }() // as in TenantTx
	if err := s.SetTenantSQLTx(ctx, tx, job.HeldTenant()); err != nil {
		return tenantError(job, err)
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return tenantError(job, s.classify(endedEarly(ctx, err)))
	}
	return nil
}

// SetTenantTx has row-level security see tenant from here to the end of tx, for who
// begins transactions in another way than [Store.TenantTx], or outside of a handler. It
// checks what TenantTx checks; after an error roll tx back. A rollback to a savepoint
// from before takes it back.
func (s *Store) SetTenantTx(ctx context.Context, tx pgx.Tx, tenant string) error {
	return s.setTenant(tenant, func(statement string, args []any, into ...any) error {
		return tx.QueryRow(ctx, statement, args...).Scan(into...)
	})
}

// SetTenantSQLTx is [Store.SetTenantTx] for a transaction of database/sql, whatever its
// driver.
func (s *Store) SetTenantSQLTx(ctx context.Context, tx *sql.Tx, tenant string) error {
	return s.setTenant(tenant, func(statement string, args []any, into ...any) error {
		return tx.QueryRowContext(ctx, statement, args...).Scan(into...)
	})
}

// tellTenant is local to the transaction, so that no connection of a pool, nor a pooler's
// session, keeps it. pg_roles is read every time, because it costs next to nothing, and a
// pool may have connections of several roles.
const tellTenant = `
select r.rolname::text, r.rolsuper, r.rolbypassrls, set_config($1, $2, true)
from pg_roles r
where r.rolname = current_user`

// ownedTables are those with policies that do not bind the current role, which is no
// superuser: it is their owner, or a member of the owner.
const ownedTables = `
select coalesce(string_agg(c.oid::regclass::text, ', ' order by c.oid), '')
from pg_class c
where c.relkind in ('r', 'p') and c.relrowsecurity and not row_security_active(c.oid)`

func (s *Store) setTenant(tenant string, ask func(statement string, args []any, into ...any) error) error {
	if err := checkScopeTenant(tenant); err != nil {
		return fmt.Errorf("set the tenant: %w", err)
	}
	var role, value string
	var superuser, bypasses bool
	err := ask(tellTenant, []any{s.config.TenantSetting, tenant}, &role, &superuser, &bypasses, &value)
	if err != nil {
		return fmt.Errorf("set the tenant: %w", s.classify(err))
	}
	if superuser || bypasses {
		why := "has BYPASSRLS"
		if superuser {
			why = "is a superuser"
		}
		return fmt.Errorf("set the tenant: the role %q %s, so no policy binds it; connect as another, "+
			"or have this one become another with role=… in the database URL", role, why)
	}
	if _, known := s.tenantRoles.Load(role); known {
		return nil
	}
	var tables string
	if err := ask(ownedTables, nil, &tables); err != nil {
		return fmt.Errorf("look for tables that the role %q owns: %w", role, s.classify(err))
	}
	// Not an error: it may own tables that are closed to others, and not by tenant.
	if _, known := s.tenantRoles.LoadOrStore(role, true); !known && tables != "" {
		s.log.Warn("row-level security of these tables does not bind the role, which owns them; force it, or connect as another role",
			"role", role, "tables", later.ClipText(tables, maxOwnedTables))
	}
	return nil
}

// maxOwnedTables bounds the names in the warning, in bytes. Chosen, not measured.
const maxOwnedTables = 1000

// checkScopeTenant is laxer than [later.CheckTenant]: a plain INSERT may have made a job
// that Enqueue refuses, and its tenant is as good as any.
func checkScopeTenant(tenant string) error {
	fault := func(reason string) error { return &later.FieldError{Field: "tenant", Reason: reason} }
	switch {
	case tenant == "":
		return fault("is empty, and policies would show nothing; give the job one in later.Options, or use a plain transaction")
	case !utf8.ValidString(tenant) || strings.ContainsRune(tenant, 0):
		return fault("is not valid UTF-8 or has a NUL")
	}
	return nil
}

func checkTenantTx(job later.Held, fn bool) error {
	if job == nil {
		return errors.New("tenant transaction: the job is nil")
	}
	if !fn {
		return errors.New("tenant transaction: the function is nil")
	}
	return nil
}

func (s *Store) tenantPool() (*pgxpool.Pool, error) {
	pool, err := s.appPool()
	if err == nil && s.config.TenantPool != nil {
		pool = s.config.TenantPool
	}
	return pool, err
}

func tenantError(job later.Held, err error) error {
	return fmt.Errorf("tenant transaction, job %d: %w", job.HeldLease().ID, err)
}

// endedEarly says why a commit found no transaction.
func endedEarly(ctx context.Context, err error) error {
	gone := errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone)
	switch {
	case gone && ctx.Err() != nil: // database/sql has rolled it back
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case gone:
		return fmt.Errorf("the function has ended the transaction itself: %w", err)
	}
	return err
}

// settingName is what the server takes for a setting of an application's own. Without a
// point it would be one of the server's, such as role.
var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62}){1,3}$`)

func checkSettingName(name string) error {
	if !settingName.MatchString(name) {
		return fmt.Errorf("postgres: TenantSetting %q is not two to four names with points between them, as in app.tenant, "+
			"each 1 to 63 letters, digits and _, the first no digit", later.ClipText(name, 100))
	}
	if strings.EqualFold(name, "later.wake") {
		return fmt.Errorf("postgres: TenantSetting %q is the setting that decides about wake-ups", name)
	}
	return nil
}
