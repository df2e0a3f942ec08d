package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tick is the unit of /proc's CPU times in microseconds: 1/100 s on every Linux
// (proc(5), sysconf(_SC_CLK_TCK)).
const tick = 10_000

// postmasterOf returns the parent of a backend if that is a process of this
// machine, else 0. A server elsewhere, or in a container with numbers of its own,
// may have a number that something else has here, so the title is compared.
func postmasterOf(pid int, database string) int {
	title, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return 0
	}
	text := string(bytes.ReplaceAll(title, []byte{0}, []byte{' '}))
	if !strings.Contains(text, "postgres: ") || !strings.Contains(text, " "+database+" ") {
		return 0
	}
	s, ok := readStat(strconv.Itoa(pid))
	if !ok {
		return 0
	}
	return s.parent
}

type stat struct {
	parent      int
	own, reaped int64 // ticks; reaped are those of children that have ended
}

// readStat reads what proc(5) calls fields 4 and 14 to 17. The name before them
// may have any character in it.
func readStat(pid string) (s stat, ok bool) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return s, false
	}
	end := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[end+1:]))
	if end < 0 || len(fields) < 15 {
		return s, false
	}
	number := func(field int) int64 {
		n, err := strconv.ParseInt(fields[field-3], 10, 64)
		ok = ok && err == nil
		return n
	}
	ok = true
	s = stat{parent: int(number(4)), own: number(14) + number(15), reaped: number(16) + number(17)}
	return s, ok
}

// serverCPU is the CPU time in microseconds of the server and of all its children,
// those included that have ended.
func serverCPU(postmaster int) *int64 {
	if postmaster == 0 {
		return nil
	}
	name := strconv.Itoa(postmaster)
	for range 5 {
		before, ok := readStat(name)
		if !ok {
			return nil
		}
		sum := before.own + before.reaped
		all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
		for _, dir := range all {
			if s, ok := readStat(filepath.Base(dir)); ok && s.parent == postmaster {
				sum += s.own + s.reaped
			}
		}
		// A child that ended meanwhile would be counted twice, or not at all.
		if after, ok := readStat(name); ok && after.reaped == before.reaped {
			return new(sum * tick)
		}
	}
	return nil
}
