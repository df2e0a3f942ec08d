package server

import (
	"os"
	"path/filepath"
	"strings"
)

// fileSystem names the type of the file system that holds dir: in memory (tmpfs) a
// commit that waits for the disk waits for nothing, and the reader must know. It is ""
// where that cannot be found out.
func fileSystem(dir string) string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return fileSystemIn(string(text), dir)
}

// fileSystemIn looks dir up in the text of proc(5)'s mountinfo: the mount point is the
// fifth field, the type is the first behind the separator "-". Of mounts above dir the
// lowest counts, of those on one point the last.
func fileSystemIn(mountinfo, dir string) string {
	found, longest := "", -1
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(line, " - ")
		fields, behind := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(behind) == 0 {
			continue
		}
		rel, err := filepath.Rel(fields[4], dir)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		if len(fields[4]) >= longest {
			found, longest = behind[0], len(fields[4])
		}
	}
	return found
}
