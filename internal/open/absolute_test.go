package open

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"sqlite:later.db":          "sqlite:" + filepath.Join(here, "later.db"),
		"sqlite:../a/later.db":     "sqlite:" + filepath.Join(filepath.Dir(here), "a", "later.db"),
		"sqlite:/var/later.db":     "sqlite:/var/later.db",
		"sqlite:///var/later.db":   "sqlite:/var/later.db",
		"postgres://bob:x@h/d?a=b": "postgres://bob:x@h/d?a=b",
	} {
		if got, err := Absolute(url); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", url, got, err, want)
		}
	}
	if _, err := Absolute("sqlite:"); !errors.Is(err, ErrURL) {
		t.Errorf("got %v, want ErrURL", err)
	}
}
