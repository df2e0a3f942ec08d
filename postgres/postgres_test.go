package postgres_test

import (
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/testdb"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/storetest"
)

// open returns a store in a schema of its own on the shared server.
func open(t *testing.T, config postgres.Config) *postgres.Store {
	t.Helper()
	return openAt(t, testdb.Postgres(t), config)
}

// openAt is [open] at an address of one's own.
func openAt(t *testing.T, url string, config postgres.Config) *postgres.Store {
	t.Helper()
	if config.Schema == "" {
		config.Schema = testdb.Schema(t, url)
	}
	store, err := postgres.Open(t.Context(), url, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) later.Store { return open(t, postgres.Config{}) })
}
