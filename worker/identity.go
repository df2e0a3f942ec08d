package worker

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/later-queue/later"
)

// maxName leaves room for the nonce within later.MaxNameBytes.
const maxName = 90

// identity is who a worker is: unique for each start, even where host names and
// process ids come again (a restarted pod is worker-0 with pid 1 once more).
type identity struct {
	name, host, version string
	pid                 int
}

func newIdentity(name, version string) (identity, error) {
	id := identity{pid: os.Getpid(), version: version}
	id.host, _ = os.Hostname() // for people only; an unknown host is no fault
	if name == "" {
		name = fmt.Sprintf("%s-%d", nameFrom(id.host), id.pid)
	}
	if err := later.CheckName("Name", name); err != nil {
		return id, fmt.Errorf("worker: %w", err)
	}
	if len(name) > maxName {
		return id, fmt.Errorf("worker: Name has %d bytes, at most %d are allowed", len(name), maxName)
	}
	var nonce [4]byte
	rand.Read(nonce[:]) // never fails (crypto/rand)
	id.name = name + "-" + hex.EncodeToString(nonce[:])
	if id.version == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			id.version = info.Main.Version
		}
	}
	return id, nil
}

// nameFrom makes a host's name fit later.CheckName.
func nameFrom(host string) string {
	b := []byte(host)
	for i, c := range b {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
		if letter || i > 0 && (c == '.' || c == '-') {
			continue
		}
		b[i] = '_'
	}
	if len(b) == 0 {
		return "host"
	}
	return string(b[:min(len(b), 60)])
}
