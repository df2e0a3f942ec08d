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

// machineCPU is the CPU time in microseconds that everything on this machine has
// used, that which a hypervisor took included: in proc(5), the first line of
// /proc/stat without idle, iowait and the guests, which are counted as user already.
// cpus are all that the machine has.
func machineCPU() (used *int64, cpus int) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, 0
	}
	cpus = bytes.Count(data, []byte("\ncpu"))
	line, _, _ := bytes.Cut(data, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return nil, 0
	}
	var sum int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} { // user, nice, system, irq, softirq, steal
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return nil, 0
		}
		sum += n
	}
	return new(sum * tick), cpus
}
