// Package migration reads numbered SQL migrations from embedded files.
package migration

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"sort"
	"strconv"
)

// Migration is one step of a schema: a file 0001_name.sql and the file
// 0001_name.down.sql that undoes it.
type Migration struct {
	Version int
	Name    string
	Up      string
	Down    string
	// Oldest is the oldest schema version for which a program may have been
	// built and still run on a database that has this migration. The first line
	// of the file says it: "-- oldest program: 1".
	Oldest int
}

var (
	fileName   = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)
	oldestLine = regexp.MustCompile(`^-- oldest program: (\d+)\n`)
)

// Load returns the migrations of files' top folder in the order of their
// versions, which go up from 1 without a gap.
func Load(files fs.FS) ([]Migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	sort.Strings(names)
	var list []Migration
	for _, name := range names {
		parts := fileName.FindStringSubmatch(name)
		if parts == nil {
			continue // a .down.sql, read with its up
		}
		up, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
		base := name[:len(name)-len(path.Ext(name))]
		down, err := fs.ReadFile(files, base+".down.sql")
		if err != nil {
			return nil, fmt.Errorf("migration %s has no way down: %w", name, err)
		}
		version, _ := strconv.Atoi(parts[1])
		if version != len(list)+1 {
			return nil, fmt.Errorf("migration %s: version %d expected", name, len(list)+1)
		}
		oldest := oldestLine.FindSubmatch(up)
		if oldest == nil {
			return nil, fmt.Errorf("migration %s: its first line must be \"-- oldest program: N\"", name)
		}
		m := Migration{Version: version, Name: parts[2], Up: string(up), Down: string(down)}
		m.Oldest, _ = strconv.Atoi(string(oldest[1]))
		list = append(list, m)
	}
	return list, nil
}
