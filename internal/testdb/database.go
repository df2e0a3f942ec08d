package testdb

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Database makes a database of its own on the server at address, and a role that may log
// in and no more. It returns the addresses of the database as its owner, who is the
// server's superuser, and as the role, and the role's name, which needs no quotes. Both
// are dropped when the test ends, and whoever is connected then is cut off.
func Database(t testing.TB, address string) (owner, app, role string) {
	t.Helper()
	suffix := strings.ToLower(rand.Text()[:12])
	name := "later_test_" + suffix
	role = "later_role_" + suffix
	do := func(statement string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Errorf("testdb: %s: %v", statement, err)
		}
	}
	do("create role " + role + " login")
	t.Cleanup(func() { do("drop role " + role) })
	do("create database " + name)
	t.Cleanup(func() { do(fmt.Sprintf("drop database %s with (force)", name)) })

	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	owner = u.String()
	u.User = url.User(role)
	return owner, u.String(), role
}
