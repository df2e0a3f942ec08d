package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
)

func TestClassify(t *testing.T) {
	s := &Store{schema: `"later"`}
	code := func(code string) error { return &pgconn.PgError{Code: code, Message: "m"} }
	for _, test := range []struct {
		err  error
		want error // nil: none
	}{
		{code("53100"), later.ErrFull},
		{code("53300"), later.ErrUnavailable}, {code("53200"), later.ErrUnavailable},
		{code("57P01"), later.ErrUnavailable}, {code("57P03"), later.ErrUnavailable}, {code("57014"), later.ErrUnavailable},
		{code("08006"), later.ErrUnavailable}, {code("25006"), later.ErrUnavailable}, {code("58030"), later.ErrUnavailable},
		{code("40001"), later.ErrUnavailable}, {code("40P01"), later.ErrUnavailable}, {code("55P03"), later.ErrUnavailable},
		{code("28P01"), later.ErrUnavailable}, {code("3D000"), later.ErrUnavailable},
		{code("42P01"), later.ErrSchema}, {code("3F000"), later.ErrSchema}, {code("42703"), later.ErrSchema}, {code("42883"), later.ErrSchema},
		{code("26000"), later.ErrUnavailable}, {code("42P05"), later.ErrUnavailable},
		{code("23514"), nil}, {code("22P02"), nil}, {code("42501"), nil}, {code("42601"), nil}, {code(""), nil},
		{io.ErrUnexpectedEOF, later.ErrUnavailable}, {context.DeadlineExceeded, later.ErrUnavailable}, {context.Canceled, later.ErrUnavailable},
		{errors.New("a bug"), nil},
	} {
		got := s.classify(fmt.Errorf("while: %w", test.err))
		if !errors.Is(got, test.err) {
			t.Errorf("%v: got %v, which has lost its cause", test.err, got)
		}
		for _, sentinel := range []error{later.ErrFull, later.ErrUnavailable, later.ErrSchema, later.ErrClosed, later.ErrInvalid} {
			if is, want := errors.Is(got, sentinel), sentinel == test.want; is != want {
				t.Errorf("%v: matches %q: got %v, want %v", test.err, sentinel, is, want)
			}
		}
	}
}

// otherDriver is an error of a driver that is not pgx.
type otherDriver struct{ code string }

func (e otherDriver) Error() string    { return "relation does not exist" }
func (e otherDriver) SQLState() string { return e.code }

func TestClassifyErrorsOfOtherDrivers(t *testing.T) {
	s := &Store{schema: `"later"`}
	for code, want := range map[string]error{"42P01": later.ErrSchema, "53100": later.ErrFull, "57P01": later.ErrUnavailable} {
		if got := s.classify(fmt.Errorf("while: %w", otherDriver{code})); !errors.Is(got, want) {
			t.Errorf("%s: got %v, want %v", code, got, want)
		}
	}
}

// Case 200: a password is in no error, however the URL is broken.
func TestNoErrorShowsThePassword(t *testing.T) {
	for _, url := range []string{
		"postgres://u:S3cr@t/x@h:5432/d", "postgres://u:S3cret@h:port/d", "postgres://u:S3cret%zz@h/d", "postgres://u:S3cret@h:5432/d?sslmode=no",
		"postgres://u:S3cret@[::1/d", "host=h password=S3cret port=x", "host=h password='S3cret", "password=S3cret host", "postgres://u:S3cret@h/d?pool_max_conns=x",
		"postgres://u@h/d?password=S3cret&connect_timeout=x", "postgres://u:S3cret@h/d?default_query_exec_mode=x", "postgresql://u:S3cret pass@h/d", "S3cret",
		// Nobody answers there.
		"postgres://u:S3cret@127.0.0.1:1/d", "host=127.0.0.1 port=1 user=u password=S3cret", "postgres://u:S3cret@127.0.0.1:1/d?sslmode=disable",
	} {
		_, err := Open(t.Context(), url, Config{})
		if err == nil {
			t.Fatalf("%s: opened", url)
		}
		for cause := err; cause != nil; cause = errors.Unwrap(cause) {
			if strings.Contains(cause.Error(), "S3cr") {
				t.Errorf("%s: got %q", url, cause)
			}
		}
		var b strings.Builder
		slog.New(slog.NewTextHandler(&b, nil)).Error("cannot open", "err", err)
		if strings.Contains(fmt.Sprintf("%+v %s", err, b.String()), "S3cr") {
			t.Errorf("%s: got %+v", url, err)
		}
	}
	if _, err := Open(t.Context(), "postgres://u:S3cret@127.0.0.1:1/d", Config{}); !errors.Is(err, later.ErrUnavailable) {
		t.Errorf("nobody there: got %v, want %v", err, later.ErrUnavailable)
	}
	if _, err := Open(t.Context(), "postgres://u:S3cret@h/d?sslmode=no", Config{}); !strings.Contains(err.Error(), "sslmode") {
		t.Errorf("got %v, want it to say what is wrong", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), testdb.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for names, config := range map[string]Config{
		"LogRetention": {LogRetention: -1}, "PoolSize": {PoolSize: -1}, "Schema": {Schema: "a b"},
	} {
		if _, err := New(pool, config); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("got %v, want it to name %s", err, names)
		}
	}
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no pool: accepted")
	}
}

func TestClose(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), testdb.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := New(pool, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the caller's pool: got %v, want it open", err)
	}
	_, insert := s.Enqueue(t.Context(), later.RawArgs{JobKind: "work", Payload: []byte(`{}`)}, later.Options{})
	_, claim := s.Claim(t.Context(), claimRequest(1))
	_, list := s.List(t.Context(), later.Filter{})
	for name, err := range map[string]error{
		"Enqueue": insert, "Claim": claim, "List": list, "Migrate": s.Migrate(t.Context()), "CheckSchema": s.CheckSchema(t.Context()),
		"Maintain": s.Maintain(t.Context()), "MigrateDown": s.MigrateDown(t.Context(), 0),
	} {
		if !errors.Is(err, later.ErrClosed) {
			t.Errorf("%s: got %v, want %v", name, err, later.ErrClosed)
		}
	}
}
