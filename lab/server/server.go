// Package server starts the database servers of the races, and measures what they use.
package server

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Server is a database server that this process has started for the races.
type Server interface {
	// Settings says how it runs: its version and what is not as it comes.
	Settings() map[string]string
	// Fresh makes an empty database, and returns its address.
	Fresh(ctx context.Context, name string) (url string, err error)
	// Drop removes what Fresh made.
	Drop(ctx context.Context, url string) error
	// Tidy brings the database into the state that it has when it is left alone:
	// vacuumed and analysed, where the server has such a thing.
	Tidy(ctx context.Context, url string) error
	// Read returns what the server has used so far; the counts that are kept by
	// database are those of url. What a server does not count is 0.
	Read(ctx context.Context, url string) (Usage, error)
	// Close stops it and removes its data.
	Close() error
}

// Quieter is a server whose counts are complete only after the connections that made
// them have ended.
type Quieter interface {
	// Quiet waits until nobody is connected to the database any more, except those
	// that hold a snapshot (see Hold).
	Quiet(ctx context.Context, url string) error
}

// Usage is what a server has used.
type Usage struct {
	CPU                        time.Duration // of all processes, ended ones included
	WAL                        int64         // bytes
	Commits                    int64
	Inserted, Updated, Deleted int64 // rows
}

// Since returns the usage between before and u.
func (u Usage) Since(before Usage) Usage {
	return Usage{
		CPU:      u.CPU - before.CPU,
		WAL:      u.WAL - before.WAL,
		Commits:  u.Commits - before.Commits,
		Inserted: u.Inserted - before.Inserted,
		Updated:  u.Updated - before.Updated,
		Deleted:  u.Deleted - before.Deleted,
	}
}

// starters are the servers that there are, by the name that races give to them.
var starters = map[string]func(ctx context.Context) (Server, error){
	"postgres":       startPostgres,
	"redis-always":   startRedis("always"),
	"redis-everysec": startRedis("everysec"),
	"sqlite":         startFiles,
}

// Names are the names of all servers.
func Names() []string {
	names := make([]string, 0, len(starters))
	for name := range starters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Start starts the server with this name.
func Start(ctx context.Context, name string) (Server, error) {
	start := starters[name]
	if start == nil {
		return nil, fmt.Errorf("server: there is no %q, only %v", name, Names())
	}
	s, err := start(ctx)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", name, err)
	}
	return s, nil
}
