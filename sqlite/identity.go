package sqlite

import (
	"errors"
	"fmt"
	"os"

	"github.com/later-queue/later"
)

// errFileGone says that the path no longer names the file that is open.
var errFileGone = errors.New("the database file was removed or replaced after it had been opened; restart this process")

// identity is the file that was opened. On Unix a file that is removed stays
// usable for those who have it open: jobs would be stored where nobody ever
// looks, and a worker would wait in an empty file for ever.
type identity struct {
	path string // empty: a database in memory
	info os.FileInfo
}

// identify remembers the file at path.
func identify(path string) (identity, error) {
	if path == ":memory:" {
		return identity{}, nil
	}
	info, err := os.Stat(path)
	return identity{path: path, info: info}, err
}

// check returns an error that matches [later.ErrUnavailable] when another file,
// or none, is at the path. It costs one system call for each transaction.
func (i identity) check() error {
	if i.path == "" {
		return nil
	}
	info, err := os.Stat(i.path)
	if err == nil && os.SameFile(info, i.info) {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", later.ErrUnavailable, i.path, errors.Join(errFileGone, err))
}
