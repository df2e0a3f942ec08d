package pgserver

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestFindPostgres(t *testing.T) {
	t.Run("takes the newest version, by number and not by spelling", func(t *testing.T) {
		root := t.TempDir()
		for _, version := range []string{"9.6", "9", "12", "15", "100"} {
			bin := filepath.Join(root, version, "bin")
			if err := os.MkdirAll(bin, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(bin, "initdb"), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		got, err := findPostgres(root)
		if want := filepath.Join(root, "100", "bin"); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})
	t.Run("names the Debian package when there is none", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := findPostgres(t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "postgresql-15") {
			t.Errorf("got %v, want an error that names postgresql-15", err)
		}
	})
}

func TestFindPgBouncer(t *testing.T) {
	t.Run("names the Debian package when there is none", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := findPgBouncer(t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "package pgbouncer") {
			t.Errorf("got %v, want an error that names pgbouncer", err)
		}
	})
}

func TestClosedParent(t *testing.T) {
	root := t.TempDir()
	closed := filepath.Join(root, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "open", "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The folders above are the test's own and need not be open: take the top one out.
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	someone := &account{name: "someone", uid: 65534, gid: 65534}
	data := filepath.Join(closed, "open", "data")

	t.Run("nothing is closed when every folder may be entered", func(t *testing.T) {
		if got := closedParent(data, someone); got != "" {
			t.Errorf("got %q, want none", got)
		}
	})
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Run("names the folder that the user may not enter", func(t *testing.T) {
		if got := closedParent(data, someone); got != closed {
			t.Errorf("got %q, want %q", got, closed)
		}
	})
	t.Run("our own account is not asked", func(t *testing.T) {
		if got := closedParent(data, nil); got != "" {
			t.Errorf("got %q, want none", got)
		}
	})
}

func TestFreePort(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	// Linux gives ports from 32768 on to outgoing connections.
	if port < 1024 || port >= 32768 {
		t.Errorf("got port %d, want one from 1024 to 32767", port)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	l.Close()
}
