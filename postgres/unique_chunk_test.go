package postgres

import (
	"strings"
	"testing"
)

func TestChunkOfRows(t *testing.T) {
	row := func(size int) uniqueRow { return uniqueRow{newRow: newRow{Payload: strings.Repeat("x", size)}} }
	large := []uniqueRow{row(9 << 20), row(7 << 20), row(1), row(20 << 20)}
	for from, want := range []int{2, 2, 1, 1} {
		if got := chunkOfRows(large[from:]); got != want {
			t.Errorf("from row %d: got %d rows, want %d", from, got, want)
		}
	}
	if got := chunkOfRows(make([]uniqueRow, maxChunkJobs+1)); got != maxChunkJobs {
		t.Errorf("got %d rows, want %d", got, maxChunkJobs)
	}
}
