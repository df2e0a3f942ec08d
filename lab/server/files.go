package server

import (
	"context"
	"os"
	"path/filepath"
)

// files is the server that SQLite does not have: a folder for its databases.
type files struct{ dir string }

func startFiles(context.Context) (Server, error) {
	dir, err := os.MkdirTemp("", "later-lab-")
	if err != nil {
		return nil, err
	}
	return &files{dir: dir}, nil
}

func (f *files) Settings() map[string]string {
	return map[string]string{"folder": "temporary"}
}

func (f *files) Fresh(_ context.Context, name string) (string, error) {
	dir := filepath.Join(f.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return filepath.Join(dir, "jobs.db"), os.Mkdir(dir, 0o755)
}

func (f *files) Drop(_ context.Context, path string) error {
	return os.RemoveAll(filepath.Dir(path))
}

func (f *files) Tidy(context.Context, string) error { return nil }

// Read knows nothing: the database's work is that of the processes that use it.
func (f *files) Read(context.Context, string) (Usage, error) { return Usage{}, nil }

func (f *files) Close() error { return os.RemoveAll(f.dir) }
