package demo

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/later-queue/later/internal/terminal"
)

// A command at the demo's end is copied into a shell: at any width the shell must
// read the same words.
func TestReportCommand(t *testing.T) {
	words := []string{"later", "dead", "show", "39", "--db", `sqlite:"$db"`, shellWord("select count(*) from confirmation where it's = 1")}
	for _, width := range []int{20, 60, 80, 200} {
		r := &report{width: width}
		r.command(append([]string{"printf", shellWord(`%s\n`)}, words...)...)
		for _, line := range strings.Split(r.String(), "\n") {
			if got := terminal.Width(line); got > max(width, 60) { // the last word alone is 60 wide
				t.Errorf("%q has %d columns, want at most %d", line, got, width)
			}
		}
		out, err := exec.Command("sh", "-c", "db=/a/b\n"+r.String()).Output()
		want := "later\ndead\nshow\n39\n--db\nsqlite:/a/b\nselect count(*) from confirmation where it's = 1\n"
		if err != nil || string(out) != want {
			t.Errorf("in %d columns: got %q, %v from\n%s", width, out, err, r.String())
		}
	}
}
