package cli

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
)

// Case 146: a signal while the database is being connected to ends the start.
func TestSignalInStart(t *testing.T) {
	s := newShell(t)
	silent := httptest.NewUnstartedServer(nil) // accepts, and says nothing
	defer silent.Close()
	s.url = "postgres://" + silent.Listener.Addr().String() + "/x?sslmode=disable&connect_timeout=60"
	p := s.start("work", "--exec", "k=true")
	eventually(t, "the database is being connected to", func() bool { return hasSocket(p.cmd.Process.Pid) })
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 143 {
		t.Errorf("got exit code %d, want 143", code)
	}
}

// hasSocket reports whether a process has one open. The command makes its first
// one for the database, after it has begun to listen for signals.
func hasSocket(pid int) bool {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name())); err == nil && strings.HasPrefix(target, "socket:") {
			return true
		}
	}
	return false
}
