package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
	"github.com/later-queue/later/storetest"
)

// The store contract's suite is the specification; it runs on a file and on a
// database in memory.
func TestContract(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) later.Store { return openStore(t, filepath.Join(t.TempDir(), "later.db"), sqlite.Config{}) })
	})
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) later.Store { return openStore(t, ":memory:", sqlite.Config{}) })
	})
}
