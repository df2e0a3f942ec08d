package race

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/later-queue/later/lab/data"
)

// describe is a round in one line.
func describe(lane Lane, r data.Round) string {
	parts := []string{lane.String() + ":"}
	add := func(format string, value float64) {
		if value != 0 {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add("%.0f jobs/s", r.Rate)
	add("enqueue %.0f/s", r.EnqueueRate)
	add("p50 %.2f ms", r.P50/1e3)
	add("p99 %.2f ms", r.P99/1e3)
	add("server %.1f µs/job", r.ServerCPU)
	add("client %.1f µs/job", r.ClientCPU)
	add("enqueue WAL %.0f B/job", r.EnqueueWAL)
	add("WAL %.0f B/job", r.WALBytes)
	add("%.3f commits/job", r.Commits)
	add("idle %.2f commits/s", r.IdleCommits)
	add("%.0f MiB", float64(r.MaxMemoryBytes)/(1<<20))
	if r.Cut {
		parts = append(parts, fmt.Sprintf("cut after %d jobs", r.Jobs))
	}
	if r.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d HANDLED BUT LEFT", r.Left))
	}
	if r.Missing > 0 {
		parts = append(parts, fmt.Sprintf("%d never started", r.Missing))
	}
	if r.Error != "" {
		parts = append(parts, "FAILED: "+r.Error)
	}
	return strings.Join(parts, "  ")
}

// tail keeps the end of what contenders say to people, for when one of them fails.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is chosen: a stack's top, or a few lines.
const tailBytes = 2_000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(p), nil
}

// with adds it to an error.
func (t *tail) with(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil || len(t.text) == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(t.text)))
}

// machine says what this one is. What cannot be found out is left empty.
func machine() data.Machine {
	m := data.Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	m.CPU = procValue("/proc/cpuinfo", "model name")
	if memory := strings.TrimSuffix(procValue("/proc/meminfo", "MemTotal"), " kB"); memory != "" {
		if kilobytes, err := strconv.ParseInt(memory, 10, 64); err == nil {
			m.MemoryBytes = kilobytes << 10
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += ", kernel " + strings.TrimSpace(string(release))
	}
	return m
}

// procValue is the value of the first line "key: value" of a file.
func procValue(file, key string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
