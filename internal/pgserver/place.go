package pgserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
)

// The folders in which Debian keeps what is not in an ordinary user's PATH.
const (
	debianPostgres = "/usr/lib/postgresql" // one folder per major version
	debianSbin     = "/usr/sbin"
)

// findPostgres returns the folder of the newest PostgreSQL server's programs, from
// below the folder debian or from PATH.
func findPostgres(debian string) (string, error) {
	found, err := filepath.Glob(filepath.Join(debian, "*", "bin", "initdb"))
	if err != nil {
		return "", fmt.Errorf("pgserver: %w", err)
	}
	newest, best := "", -1
	for _, initdb := range found {
		bin := filepath.Dir(initdb)
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if err != nil {
			continue // a folder like 9.6, which is older than all we support
		}
		if version > best {
			newest, best = bin, version
		}
	}
	if newest != "" {
		return newest, nil
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(initdb), nil
	}
	return "", fmt.Errorf("pgserver: no PostgreSQL server found: install the Debian package postgresql-15 (script/install does)")
}

// findPgBouncer returns the path of the program, from PATH or the folder sbin.
func findPgBouncer(sbin string) (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	path := filepath.Join(sbin, "pgbouncer")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("pgserver: no PgBouncer found: install the Debian package pgbouncer (script/install does)")
}

// account is a user that servers run as.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged returns the account for servers when we are root, else nil: our own.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("pgserver: user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("pgserver: user %s: %w", name, err)
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("pgserver: PostgreSQL refuses to run as root, and there is no user postgres or nobody")
}

// own gives a file or folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	return nil
}

// makeDir makes the folder of a server and says whether it made it. An empty dir
// stands for a new temporary folder.
func makeDir(dir, prefix string, user *account) (path string, made bool, err error) {
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", false, fmt.Errorf("pgserver: %w", err)
		}
		if closed := closedParent(dir, user); closed != "" {
			return "", false, fmt.Errorf("pgserver: the user %s cannot enter %s, on the way to %s", user.name, closed, dir)
		}
		_, statErr := os.Stat(dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", false, fmt.Errorf("pgserver: %w", err)
		}
		return dir, os.IsNotExist(statErr), user.own(dir)
	}
	parent := os.TempDir()
	if closedParent(filepath.Join(parent, "x"), user) != "" {
		parent = "/tmp" // TMPDIR lies in root's home, where the server's user may not go
	}
	if dir, err = os.MkdirTemp(parent, prefix); err != nil {
		return "", false, fmt.Errorf("pgserver: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", false, fmt.Errorf("pgserver: %w", err)
	}
	return dir, true, user.own(dir)
}

// closedParent returns the first folder above path that exists and that the account
// may not enter, or "".
func closedParent(path string, user *account) string {
	if user == nil {
		return ""
	}
	closed := ""
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			closed = dir
		}
		if dir == filepath.Dir(dir) {
			return closed
		}
	}
}

// writeFile writes a file that belongs to the account.
func writeFile(name, text string, user *account) error {
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	return user.own(name)
}

// freePort finds a port of 127.0.0.1 on which nobody listens. It lies below 32768,
// where Linux begins to give ports to outgoing connections: so no client takes a
// stopped server's port before it starts again.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 15000 + rand.IntN(17000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			last = err
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, fmt.Errorf("pgserver: no free port: %w", last)
}
