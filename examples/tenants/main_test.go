package main

import (
	"strings"
	"testing"

	"github.com/later-queue/later/internal/testdb"
)

func TestRun(t *testing.T) {
	owner, app, _ := testdb.Database(t, testdb.Postgres(t))
	var out strings.Builder
	if err := run(t.Context(), owner, app, &out); err != nil {
		t.Fatal(err)
	}
	want := "acme sees 1 statement, over 42\nglobex sees 1 statement, over 100\nwithout a tenant one sees 0\n"
	if got := out.String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
