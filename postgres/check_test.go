package postgres

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The list of columns is the migrations': what a migration adds is checked as well.
func TestColumnsAreThoseOfTheMigrations(t *testing.T) {
	s, conn := planStore(t)
	for table, want := range columns {
		rows, err := conn.Query(t.Context(), `
			select attname::text from pg_attribute
			where attrelid = $1::regclass and attnum > 0 and not attisdropped`, s.schema+"."+table)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		want = slices.Sorted(slices.Values(want))
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", table, got, want)
		}
	}
}
