package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestMigrationErrors(t *testing.T) {
	detailed := func(code string) string {
		return withDetail(&pgconn.PgError{Severity: "ERROR", Code: code, Message: "it failed", Detail: "a view depends\nanother too", Hint: "a hint"}).Error()
	}

	t.Run("what the server says besides is told, on one line", func(t *testing.T) {
		if got, want := detailed("55000"), "ERROR: it failed (SQLSTATE 55000): a view depends, another too (a hint)"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("rows are not", func(t *testing.T) {
		for _, code := range []string{"22P02", "23514", "23505"} { // bad text, check, unique
			if got := detailed(code); strings.Contains(got, "depends") || !strings.Contains(got, "a hint") {
				t.Errorf("%s: got %q, want it without the detail", code, got)
			}
		}
	})
	t.Run("one that the server does not know is left alone", func(t *testing.T) {
		other := errors.New("other")
		if got := withDetail(other); got != other {
			t.Errorf("got %v, want %v", got, other)
		}
	})
}
