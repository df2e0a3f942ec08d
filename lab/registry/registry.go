// Package registry is the list of the contenders: the one place to add one.
package registry

import (
	"fmt"
	"strings"

	"github.com/later-queue/later/internal/spelling"
	"github.com/later-queue/later/lab/contender"
)

// Database is the kind of server that a contender runs on.
type Database string

// The kinds of databases.
const (
	Postgres Database = "postgres"
	Redis    Database = "redis"
	SQLite   Database = "sqlite"
)

// Entry is one contender.
type Entry struct {
	Name     string
	Database Database
	// Go is a contender that is part of this program; or
	Go *contender.Definition
	// Program is one that is not: the command, run in the folder lab, that takes the
	// verb and its arguments behind it and speaks the same protocol.
	Program []string
}

// Find returns the contender with this name.
func Find(name string) (Entry, error) {
	for _, e := range Entries {
		if e.Name == name {
			return e, nil
		}
	}
	return Entry{}, fmt.Errorf("no contender is called %q%s; there are %s", name, spelling.DidYouMean(name, names()), strings.Join(names(), ", "))
}

func names() []string {
	var all []string
	for _, e := range Entries {
		all = append(all, e.Name)
	}
	return all
}
