package bench

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// freeBytes is the room on the disk of dir.
func freeBytes(dir string) (n int64, ok bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * s.Bsize, true
}

// written is how many bytes this process has given to write calls.
func written() *int64 {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(data) {
		if text, ok := bytes.CutPrefix(line, []byte("wchar: ")); ok {
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil {
				return &n
			}
		}
	}
	return nil
}
