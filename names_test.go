package later_test

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/later-queue/later"
)

// Case 16: names with quotes, slashes, metacharacters and the like.
var oddNames = []string{
	`a'b`, `a"b`, "a`b", `a;drop table jobs--`, `a%b_c`, `a\b`, `foo/bar.baz`, `..`, `a?b#c`, `queue+name`,
	`a b`, ` a`, `{a}`, "caf\u00e9", "cafe\u0301", "\U0001f600", "\u202eevil", "a\nb", "\n", "", "*", "a\x00b", "\xff",
	"-rf", ".hidden", ":a", strings.Repeat("a", later.MaxNameBytes+1),
	// Case 202: SQL in a name.
	`a'||pg_sleep(5)||'`, `q"; drop table x; --`,
}

func TestCheckName(t *testing.T) {
	t.Run("refuses what does not work everywhere, and names the field", func(t *testing.T) {
		for _, name := range oddNames {
			err := later.CheckName("queue", name)
			var field *later.FieldError
			if !errors.As(err, &field) || field.Field != "queue" || field.Reason == "" {
				t.Errorf("%q: got %v, want a FieldError for queue", name, err)
			}
			if !errors.Is(err, later.ErrInvalid) {
				t.Errorf("%q: got %v, want it to match ErrInvalid", name, err)
			}
		}
	})
	t.Run("accepts letters, digits and the separators", func(t *testing.T) {
		for _, name := range []string{"a", "A", "7", "_x", "order.confirm", "a:b", "send-mail", "a..b", strings.Repeat("a", later.MaxNameBytes)} {
			if err := later.CheckName("kind", name); err != nil {
				t.Errorf("%q: got %v, want nil", name, err)
			}
		}
	})
	t.Run("points at the character", func(t *testing.T) {
		got := later.CheckName("kind", "ab/c").Error()
		if want := `kind "ab/c" has '/' at byte 2; allowed are letters, digits and _, and after the first also . : -`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestCheckTenant(t *testing.T) {
	t.Run("accepts what customers are called", func(t *testing.T) {
		for _, name := range []string{
			"", "acme", "42", "https://acme.example/eu?x=1#y", "info@acme.example", "Café Zürich GmbH & Co. KG", "cafe\u0301",
			"株式会社", "\U0001f600", `a'b`, `a"b`, `a\b`, `a;drop table jobs--`, "%_", "..", "*", strings.Repeat("é", later.MaxTenantBytes/2),
		} {
			if err := later.CheckTenant(name); err != nil {
				t.Errorf("%q: got %v, want nil", name, err)
			}
		}
	})
	t.Run("refuses what no person can see or no database can store", func(t *testing.T) {
		for _, name := range []string{
			" a", "a ", " ", "a\nb", "\t", "a\x00b", "a\x7fb", "\xff", "caf\xe9", "\u202eevil", "a\u200bb", "\ufeffa", "a\u00a0b", "a\u2028b",
			strings.Repeat("a", later.MaxTenantBytes+1),
		} {
			err := later.CheckTenant(name)
			var field *later.FieldError
			if !errors.As(err, &field) || field.Field != "tenant" {
				t.Errorf("%q: got %v, want a FieldError for tenant", name, err)
			}
		}
	})
}

func FuzzCheckName(f *testing.F) {
	for _, name := range append(oddNames, "a", "order.confirm", "a:b", "send-mail") {
		f.Add(name)
	}
	valid := regexp.MustCompile(`\A[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}\z`)
	f.Fuzz(func(t *testing.T, name string) {
		err := later.CheckName("kind", name)
		if got, want := err == nil, valid.MatchString(name); got != want {
			t.Errorf("%q: accepted is %v, want %v (%v)", name, got, want, err)
		}
		// A valid name is one segment of a URL's path, unescaped.
		if err == nil && url.PathEscape(name) != name {
			t.Errorf("%q was accepted, but is escaped in a URL", name)
		}
		if err == nil && later.CheckTenant(name) != nil {
			t.Errorf("%q is a kind but no tenant: %v", name, later.CheckTenant(name))
		}
		if err != nil && !utf8.ValidString(err.Error()) {
			t.Errorf("%q: the error is not valid UTF-8", name)
		}
	})
}
