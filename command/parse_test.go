package command_test

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later/command"
)

func TestParse(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Fatal("these are the rules of other systems; write the table for this one")
	}
	shell := func(text string) []string { return []string{"/bin/sh", "-c", text} }
	for _, c := range []struct {
		text string
		want []string
	}{
		{"./thumbnail.sh", []string{"./thumbnail.sh"}},
		{"  a  b\tc ", []string{"a", "b", "c"}},
		{`a 'b c' "d e" f\ g`, []string{"a", "b c", "d e", "f g"}},
		{`a ''""`, []string{"a", ""}},
		{`a'b'"c"d`, []string{"abcd"}},
		{`a "\"\\\a\'"`, []string{"a", `"\\a\'`}},
		{`a '$x' '*' "|"`, []string{"a", "$x", "*", "|"}},
		{`a \$x \|`, []string{"a", "$x", "|"}},
		{`a b=c --d=e b#c x~`, []string{"a", "b=c", "--d=e", "b#c", "x~"}},
		{`php artisan queue:run --tries=1`, []string{"php", "artisan", "queue:run", "--tries=1"}},
		{`'exit' 1`, []string{"exit", "1"}},
		{`café ☕`, []string{"café", "☕"}},
		{`a $x`, shell(`a $x`)},
		{`a "$x"`, shell(`a "$x"`)},
		{"a `b`", shell("a `b`")},
		{`a | b`, shell(`a | b`)},
		{`a && b`, shell(`a && b`)},
		{`a; b`, shell(`a; b`)},
		{"a\nb", shell("a\nb")},
		{"a \\\nb", shell("a \\\nb")},
		{"a \"\\\nb\"", shell("a \"\\\nb\"")},
		{`a > b`, shell(`a > b`)},
		{`a *.jpg`, shell(`a *.jpg`)},
		{`a ~/b`, shell(`a ~/b`)},
		{`a # it's a comment`, shell(`a # it's a comment`)},
		{`A=b c`, shell(`A=b c`)},
		{`exit 1`, shell(`exit 1`)},
		{`exec a`, shell(`exec a`)},
		{`cd /tmp`, shell(`cd /tmp`)},
		{`! a`, shell(`! a`)},
		{`{ a; }`, shell(`{ a; }`)},
	} {
		got, err := command.Parse(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	for _, text := range []string{"", " \t", "''", `'' a`, `a 'b`, `a "b`, `a "b\"`, `a \`, "a\x00b"} {
		if got, err := command.Parse(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}

// FuzzParse asks the shell itself: what Parse splits, the shell splits in the
// same way, and what Parse calls wrong, the shell does too.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`a 'b c' "d e" f\ g`, `a''b ""`, `a "\x\"\\"`, `a 'b`, `a \`, `a#b #c`, `a=b`, `a b=c`, `é ☕`, "a\\\nb",
		"a\vb", "a\fb", "a\u00a0b", `a "'" '"'`, `a ~ b~`, `a ^b %c @d +e ,f /g -h`, `a !b`, "a \xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := command.Parse(text)
		if err != nil || strings.Join(words[:min(2, len(words))], " ") == "/bin/sh -c" {
			return // nothing was split
		}
		// The first word could be a command of the shell that does anything; as
		// an argument it is split all the same.
		// Without PATH it can start no program, should Parse miss something.
		sh := exec.Command("/bin/sh", "-c", `printf '%s\0' x`+text)
		sh.Env, sh.Dir = []string{"PATH=/nonexistent"}, t.TempDir()
		out, err := sh.Output()
		if err != nil {
			t.Fatalf("%q: the shell refuses what Parse split into %q: %v", text, words, err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		words[0] = "x" + words[0]
		if lead := strings.TrimLeft(text, " \t"); lead != text {
			words[0] = words[0][1:]
			words = append([]string{"x"}, words...)
		}
		if !slices.Equal(words, want) {
			t.Errorf("%q: got %q, the shell has %q", text, words, want)
		}
	})
}

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		line  string
		want  command.Line
		fault string
	}{
		{"", command.Line{}, ""},
		{"done", command.Line{}, ""},
		{"Later: after 5s", command.Line{}, ""},
		{"later after 5s", command.Line{}, ""},
		{"later: after 30s", command.Line{After: 30 * time.Second}, ""},
		{"  later:after  30s  ", command.Line{After: 30 * time.Second}, ""},
		{"later: after 90", command.Line{After: 90 * time.Second}, ""},
		{"later: after 1h30m", command.Line{After: 90 * time.Minute}, ""},
		{"later: after 0", command.Line{After: command.MinDelay}, ""},
		{"later: after 10ms", command.Line{After: command.MinDelay}, ""},
		{"later: after 100000h", command.Line{After: command.MaxDelay}, ""},
		{"later: after 99999999999999999", command.Line{After: command.MaxDelay}, ""},
		{"later: because a  b", command.Line{Because: "a  b"}, ""},
		{"later: after 5s because a b", command.Line{After: 5 * time.Second, Because: "a b"}, ""},
		{"later: because after 5s", command.Line{Because: "after 5s"}, ""},
		{"later:", command.Line{}, "nothing else"},
		{"later: after", command.Line{}, `says ""`},
		{"later: after soon", command.Line{}, `says "soon"`},
		{"later: after -1", command.Line{}, `says "-1"`},
		{"later: after -1s", command.Line{}, `says "-1s"`},
		{"later: after 1e3", command.Line{}, `says "1e3"`},
		{"later: after 99999999999999999999999", command.Line{}, "was expected"},
		{"later: after 5s because", command.Line{}, `ends with "because"`},
		{"later: after 5s 6s", command.Line{}, `has "6s"`},
		{"later: snooze 30s", command.Line{}, `has "snooze"`},
	} {
		got, err := command.ParseLine(c.line)
		if got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.line, got, c.want)
		}
		if (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: got error %v, want %q", c.line, err, c.fault)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{"", "later:", "later: after 5s", "later: after 5s because x", "later: because x", "later: after 1h1m1s1ms", "later: after \xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := command.ParseLine(line)
		if err != nil && got != (command.Line{}) {
			t.Errorf("%q: got %+v with the error %v", line, got, err)
		}
		if got.After != 0 && (got.After < command.MinDelay || got.After > command.MaxDelay) {
			t.Errorf("%q: got %v, outside of its bounds", line, got.After)
		}
		if err == nil && got == (command.Line{}) && strings.HasPrefix(strings.TrimSpace(line), "later:") {
			t.Errorf("%q: says nothing and has no fault", line)
		}
	})
}
