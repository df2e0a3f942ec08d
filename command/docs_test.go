//go:build unix

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/later-queue/later/command"
)

// docsScript writes the block of docs/commands.md that contains mark into a file.
func docsScript(t *testing.T, mark string) string {
	t.Helper()
	page := readFile(t, "../docs/commands.md")
	at := strings.Index(page, mark)
	if at < 0 {
		t.Fatalf("docs/commands.md has no block with %q", mark)
	}
	begin := strings.LastIndex(page[:at], "```")
	begin += strings.Index(page[begin:], "\n") + 1
	end := at + strings.Index(page[at:], "\n```")
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(page[begin:end+1]), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDocs(t *testing.T) {
	t.Run("small.sh does what docs/commands.md says", func(t *testing.T) {
		dir := t.TempDir()
		config := command.Config{Command: []string{"/bin/sh", docsScript(t, "# small.sh:")}, Dir: dir}
		if err := os.WriteFile(filepath.Join(dir, "a.jpg"), []byte(strings.Repeat("x", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		for payload, want := range map[string]string{
			`{"file": "a.jpg"}`:       "done",
			`{"file":"missing.jpg"}`:  "snooze 30s",
			`{"path": "a.jpg"}`:       "dead",
			`{"file": "not/a/b.jpg"}`: "snooze 30s",
		} {
			if err := runConfig(t, config, newJob(payload)); verdict(err) != want {
				t.Errorf("%s: got %s (%v), want %s", payload, verdict(err), err, want)
			}
		}
		if got := len(readFile(t, filepath.Join(dir, "a.jpg.small"))); got != 100 {
			t.Errorf("the small copy has %d bytes, want 100", got)
		}
	})
	t.Run("charge.py does what docs/commands.md says", func(t *testing.T) {
		config := command.Config{Command: []string{"python3", docsScript(t, "# charge.py:")}}
		for payload, want := range map[string][2]string{
			`{"customer": 7, "cents": 990}`: {"done", ""},
			`{"customer": 7, "cents": 0}`:   {"dead", "exit code 65: there is nothing to charge"},
			`{"customer": 7}`:               {"retry", "KeyError: 'cents'"},
		} {
			err := runConfig(t, config, newJob(payload))
			if verdict(err) != want[0] || err != nil && !strings.Contains(err.Error(), want[1]) {
				t.Errorf("%s: got %s (%v), want %s", payload, verdict(err), err, want)
			}
		}
	})
	t.Run("command lines are taken as docs/commands.md says", func(t *testing.T) {
		for line, first := range map[string]string{
			`python3 mail.py --from "The Shop"`: "python3",
			`wc -c > count.txt`:                 "/bin/sh",
		} {
			words, err := command.Parse(line)
			if err != nil || words[0] != first {
				t.Errorf("%s: got %q, %v; want it to be started by %s", line, words, err, first)
			}
		}
	})
}
