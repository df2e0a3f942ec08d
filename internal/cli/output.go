package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/later-queue/later/internal/terminal"
)

// printJSON prints v as one line of JSON. Where the output is a terminal, what
// is not visible is escaped, with the same meaning.
func (a *App) printJSON(v any) error {
	enc := json.NewEncoder(a.safeJSON(a.Out))
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

func (a *App) safeJSON(w io.Writer) io.Writer {
	if terminal.Is(w) {
		return terminal.JSONWriter{W: w}
	}
	return w
}

// printf prints a line for people; what comes from strangers must be safe
// already.
func (a *App) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Out, format, args...)
	return err
}

// printTable prints a table as wide as the terminal.
func (a *App) printTable(t *terminal.Table) error {
	width, _ := terminal.Size(a.Out)
	return t.Print(a.Out, width, a.palette.Head)
}

// stamp is a time for people.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// instant is a time for programs: null when it is not set.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func plural(n int, one, many string) string { return plural64(int64(n), one, many) }

func plural64(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
