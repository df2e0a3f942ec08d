package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be its own worker process.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestChaos is a short run of the real thing on each store: cases 64, 67, 68,
// 70, 77, 86, 88, 95, 97, 119, 131, 136, 149 and 157 under fire.
func TestChaos(t *testing.T) {
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			var out strings.Builder
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			res, err := runChaos(t.Context(), config{
				store: store, jobs: 3_000, workers: 3, kills: 6, restarts: 2, seed: 1,
				lease: 2 * time.Second, spread: 8 * time.Second, limit: 5 * time.Minute,
			}, self, &out)
			if err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + out.String())
			if len(res.violations) > 0 {
				t.Errorf("got %d broken promises, want none", len(res.violations))
			}
			if got := len(res.history.acked); got < 2_000 {
				t.Errorf("got %d acknowledged jobs, want most of 3,000", got)
			}
			if res.kills < 6 {
				t.Errorf("got %d kills, want 6", res.kills)
			}
		})
	}
}
