// Package report writes docs/benchmarks.md and its pictures from what the races left
// behind, and from the reasons in the folder notes, which are written by hand and which
// a new run therefore never loses.
//
// The same data give the same bytes: what there is of times and names comes from the data.
package report

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/later-queue/later/lab/data"
)

// Source is what a page is made of.
type Source struct {
	// Races are the results by the race's name.
	Races map[string]*data.Race
	// Notes are texts by name; see [Notes].
	Notes fs.FS
}

// Load reads all races of a folder.
func Load(dir string) (Source, error) {
	s := Source{Races: map[string]*data.Race{}, Notes: Notes}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return s, fmt.Errorf("report: %w", err)
	}
	if len(names) == 0 {
		return s, fmt.Errorf("report: no race has left results in %s", dir)
	}
	for _, name := range names {
		race, err := data.Read(name)
		if err != nil {
			return s, fmt.Errorf("report: %w", err)
		}
		s.Races[race.Race] = race
	}
	return s, nil
}

// folder is where the pictures are, beside the page.
const folder = "benchmarks"

// Write writes benchmarks.md and the folder benchmarks into docs. Pictures of an
// earlier run that this one does not have are removed.
func Write(s Source, docs string) error {
	page, pictures, err := Render(s)
	if err != nil {
		return err
	}
	dir := filepath.Join(docs, folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var errs []error
	for _, name := range old {
		if pictures[filepath.Base(name)] == nil {
			errs = append(errs, os.Remove(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pictures)) {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), pictures[name], 0o644))
	}
	errs = append(errs, os.WriteFile(filepath.Join(docs, "benchmarks.md"), page, 0o644))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
