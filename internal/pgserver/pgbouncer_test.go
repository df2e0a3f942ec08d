package pgserver_test

import (
	"testing"

	"github.com/later-queue/later/internal/pgserver"
)

func TestPgBouncer(t *testing.T) {
	server := start(t, pgserver.Config{})
	bouncer, err := pgserver.StartPgBouncer(t.Context(), server, pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bouncer.Close(); err != nil {
			t.Error(err)
		}
	})

	t.Run("leads to the server", func(t *testing.T) {
		const sql = "select current_setting('unix_socket_directories')"
		if got, want := query(t, bouncer.URL(), sql), server.Dir(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("pools by transaction: many clients share two server connections", func(t *testing.T) {
		backends := map[string]bool{}
		for range 10 {
			// Its connection stays open: in session mode the third client would wait.
			pid := query(t, bouncer.URL(), "select pg_backend_pid()::text")
			backends[pid] = true
		}
		if got := len(backends); got > 2 {
			t.Errorf("got %d server connections, want at most 2", got)
		}
	})
}
