package sqlite_test

import (
	"testing"

	"github.com/later-queue/later/sqlite"
)

// openStore returns a store that is closed when the test ends.
func openStore(t *testing.T, path string, config sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
