package storetest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table that people read is the one that every store is tested with.
func TestUniquePage(t *testing.T) {
	page, err := os.ReadFile("../docs/unique.md")
	if err != nil {
		t.Fatal(err)
	}
	cell := func(m meets) string {
		switch {
		case m == free:
			return "new job"
		case m.waits:
			return fmt.Sprintf("`%s`, may be changed", m.holder)
		}
		return fmt.Sprintf("`%s`, skipped", m.holder)
	}
	var want strings.Builder
	want.WriteString("| the job that took the key … | until done | until started | for a window |\n|---|---|---|---|\n")
	for _, s := range situations {
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", s.name, cell(s.done), cell(s.started), cell(s.window))
	}
	if !strings.Contains(string(page), "\n\n"+want.String()+"\n") {
		t.Errorf("docs/unique.md does not have the table\n%s", want.String())
	}
}
