package command

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestTail(t *testing.T) {
	t.Run("it keeps the end of whatever is written, in bounded memory", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			limit := rapid.IntRange(1, 20).Draw(t, "limit")
			kept := &tail{limit: limit}
			var all []byte
			for _, chunk := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 60)).Draw(t, "chunks") {
				n, err := kept.Write(chunk)
				if n != len(chunk) || err != nil {
					t.Fatalf("got %d, %v; want %d", n, err, len(chunk))
				}
				all = append(all, chunk...)
				if len(kept.data) > 2*limit {
					t.Fatalf("%d bytes are held for a limit of %d", len(kept.data), limit)
				}
			}
			want := all[max(0, len(all)-limit):]
			if got := kept.Bytes(); !bytes.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
		})
	})
}
