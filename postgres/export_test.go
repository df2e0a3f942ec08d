package postgres

import (
	"testing"
	"time"
)

// AwaitWaiting returns when n enqueues wait for their turn to share a statement.
func AwaitWaiting(t *testing.T, s *Store, n int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for s.shared.Waiting() != n {
		if time.Now().After(deadline) {
			t.Fatalf("got %d enqueues that wait, want %d", s.shared.Waiting(), n)
		}
		time.Sleep(time.Millisecond)
	}
}
