package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of the times in /proc: USER_HZ, which is 100 on every
// architecture that Go has for Linux (proc(5), sysconf(_SC_CLK_TCK)).
const tick = 10 * time.Millisecond

// treeCPU returns the processor time of a process, of its children that have ended,
// and of those that run. A PostgreSQL server's processes are all children of one.
func treeCPU(pid int) (time.Duration, error) {
	for range 10 {
		before, err := readStat(pid)
		if err != nil {
			return 0, err
		}
		total := before.own + before.reaped
		children, err := statsBelow(pid)
		if err != nil {
			return 0, err
		}
		for _, c := range children {
			total += c.own + c.reaped
		}
		after, err := readStat(pid)
		if err != nil {
			return 0, err
		}
		if after.reaped == before.reaped {
			return total, nil
		}
		// A child has ended meanwhile: it would be counted twice, or not at all.
	}
	return 0, fmt.Errorf("the processes below %d come and go too quickly to be measured", pid)
}

// stat is what is needed of /proc/PID/stat.
type stat struct {
	parent      int
	own, reaped time.Duration
}

// statsBelow returns those of all processes whose parent is pid.
func statsBelow(pid int) ([]stat, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []stat
	for _, name := range names {
		other, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		s, err := readStat(other)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
			// It has ended since it was listed.
		case err != nil:
			return nil, err
		case s.parent == pid:
			found = append(found, s)
		}
	}
	return found, nil
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// parseStat reads proc(5)'s fields 4 (ppid) and 14 to 17 (utime, stime, cutime,
// cstime). The second is a name in parentheses that may hold anything.
func parseStat(text []byte) (stat, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return stat{}, fmt.Errorf("stat %q has no name", text)
	}
	fields := bytes.Fields(text[end+1:]) // the first is field 3
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("stat %q is short", text)
	}
	var numbers [18]int64
	for _, i := range []int{4, 14, 15, 16, 17} {
		n, err := strconv.ParseInt(string(fields[i-3]), 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("stat: %w", err)
		}
		numbers[i] = n
	}
	return stat{
		parent: int(numbers[4]),
		own:    time.Duration(numbers[14]+numbers[15]) * tick,
		reaped: time.Duration(numbers[16]+numbers[17]) * tick,
	}, nil
}
