package drive

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/later-queue/later/lab/data"
)

// write makes a file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stamps")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReadStamps(t *testing.T) {
	t.Run("several files, and the earliest of one seq", func(t *testing.T) {
		got, err := ReadStamps(write(t, "1 500\n2 700\n"), write(t, "1 400\n3 900\n2 800\n"))
		if err != nil {
			t.Fatal(err)
		}
		want := Stamps{1: 400, 2: 700, 3: 900}
		if len(got) != 3 || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("a line that is none is an error", func(t *testing.T) {
		if _, err := ReadStamps(write(t, "1 500\n2\n")); err == nil {
			t.Error("got no error")
		}
	})
	t.Run("a missing file is an error", func(t *testing.T) {
		if _, err := ReadStamps(filepath.Join(t.TempDir(), "none")); err == nil {
			t.Error("got no error")
		}
	})
}

func TestJoin(t *testing.T) {
	acked := Stamps{1: 1000, 2: 2000, 3: 3000, 4: 4000}
	started := Stamps{1: 1250, 2: 1900, 4: 4001, 9: 1}
	got, missing := Join(acked, started, 9000)
	want := []Latency{{1000, 250}, {2000, 0}, {3000, 6000}, {4000, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: in the order of the answers, 0 for a start before the answer, "+
			"and the time until the end for what was never started", got, want)
	}
	if missing != 1 {
		t.Errorf("got %d missing, want 1", missing)
	}
	if got := Micros(got); !slices.Equal(got, []float64{0, 1, 250, 6000}) {
		t.Errorf("got %v, want them sorted", got)
	}
}

func TestOverTime(t *testing.T) {
	const start = 10_000_000
	latencies := []Latency{
		{start + 100_000, 5}, {start + 900_000, 7}, {start + 999_999, 6},
		{start + 3_000_000, 40}, // nothing in between
	}
	got := OverTime(latencies, start, 1, 0.5)
	want := []data.Point{{1, 6}, {4, 40}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPerSecond(t *testing.T) {
	const start = 10_000_000
	stamps := Stamps{1: start + 1, 2: start + 1_999_999, 3: start + 5_000_000, 4: start - 5}
	got := PerSecond(stamps, start, 2)
	want := []data.Point{{2, 1.5}, {4, 0}, {6, 0.5}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: a step of nothing is a point at 0", got, want)
	}
	if got := PerSecond(nil, start, 1); len(got) != 0 {
		t.Errorf("got %v of nothing", got)
	}
}
