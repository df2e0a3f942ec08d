package terminal

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Case 196: what is in a job cannot command the terminal of who looks at it.
func TestSafe(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain, ünïcode, 日本語, 😀", "plain, ünïcode, 日本語, 😀"},
		{"a\x1b[2Jb", `a\x1b[2Jb`},
		{"title\x1b]0;pwned\x07", `title\x1b]0;pwned\x07`},
		{"a\u009b2Jb", `a\u009b2Jb`},             // CSI as one character
		{"abc\u202etxt.exe", `abc\u202etxt.exe`}, // right-to-left override
		{"a\u2066b\u2069", `a\u2066b\u2069`},
		{"a\u200bb\ufeffc", `a\u200bb\ufeffc`}, // without a width
		{"a\u00adb", `a\u00adb`},
		{"\u3164", `\u3164`}, // Hangul filler
		{"line\nnext\ttab\r", `line\nnext\ttab\r`},
		{"\x00\x7f", `\x00\x7f`},
		{"bad\xff\xfebytes", `bad\xff\xfebytes`},
		{"kept: \ufffd", "kept: \ufffd"},
		{"\U000e0041tag", `\U000e0041tag`},
		{"\u2028\u2029", `\u2028\u2029`},
	} {
		if got := Safe(c.in); got != c.want {
			t.Errorf("Safe(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	if got, want := SafeLines("a\r\n\tb\x1b[1m\nc"), "a\n    b\\x1b[1m\nc"; got != want {
		t.Errorf("SafeLines: got %q, want %q", got, want)
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[2J\u202e\u009b\xff日本")
	f.Fuzz(func(t *testing.T, s string) {
		got := Safe(s)
		if !utf8.ValidString(got) {
			t.Errorf("Safe(%q) = %q is not valid UTF-8", s, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("Safe(%q) = %q has %U", s, got, r)
			}
		}
		for _, width := range []int{0, 1, 7} {
			if clipped := Clip(got, width); Width(clipped) > width {
				t.Errorf("Clip(%q, %d) = %q is %d wide", got, width, clipped, Width(clipped))
			}
		}
		// JSON keeps its meaning.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if _, err := (JSONWriter{W: &b}).Write(text); err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(text, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(b.String()), &after); err != nil || before != after {
			t.Errorf("%q became %q (%v)", before, after, err)
		}
		for _, r := range b.String() {
			if !unicode.IsPrint(r) {
				t.Errorf("the JSON %q has %U", b.String(), r)
			}
		}
	})
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"hello", 5, "hello"}, {"hello", 4, "hel…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"x", 0, ""},
	} {
		if got := Clip(c.in, c.width); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	table := NewTable(Column{Title: "id", Right: true}, Column{Title: "name", Max: 6}, Column{Title: "payload", Rest: true})
	table.Row("1", "日本", `{"a":1}`)
	table.Row("1000", "a\x1b[31mred", "x")
	t.Run("aligns by the columns that characters take, and makes cells safe", func(t *testing.T) {
		got := strings.Join(table.Lines(0, nil), "\n")
		want := "" +
			"  id  name    payload\n" +
			"   1  日本    {\"a\":1}\n" +
			"1000  a\\x1b…  x"
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("cuts the column that takes the rest at the terminal's width", func(t *testing.T) {
		wide := NewTable(Column{Title: "id"}, Column{Title: "text", Rest: true})
		wide.Row("1", strings.Repeat("x", 100))
		for _, line := range wide.Lines(30, nil) {
			if got := Width(line); got > 30 {
				t.Errorf("got a line of %d columns, want at most 30: %s", got, line)
			}
		}
	})
	t.Run("does not count paint as width", func(t *testing.T) {
		painted := NewTable(Column{Title: "a"}, Column{Title: "b"})
		painted.Cells(Cell{Text: "x", Paint: func(s string) string { return "<" + s + ">" }}, Cell{Text: "y"})
		if got, want := painted.Lines(0, nil)[1], "<x>  y"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestScreen(t *testing.T) {
	var b strings.Builder
	s := NewScreen(&b)
	if err := s.Draw([]string{"not shown"}, 0); err != nil || b.Len() != 0 {
		t.Errorf("drew %q on a screen that is not shown", b.String())
	}
	s.Enter()
	s.Enter()
	if err := s.Draw([]string{"one", "two", "three"}, 2); err != nil {
		t.Fatal(err)
	}
	s.Leave()
	s.Leave()
	got := b.String()
	for text, want := range map[string]int{enterScreen: 1, leaveScreen: 1, "one" + clearLine: 1, "two" + clearLine: 1, "three": 0} {
		if n := strings.Count(got, text); n != want {
			t.Errorf("got %d times %q, want %d", n, text, want)
		}
	}
	if !strings.HasSuffix(got, leaveScreen) {
		t.Errorf("got %q, want the terminal as it was before at the end", got)
	}
}

func TestPalette(t *testing.T) {
	if got := NewPalette(false).Bad("x"); got != "x" {
		t.Errorf("got %q without colours, want x", got)
	}
	if got := NewPalette(true).Bad("x"); !strings.Contains(got, "\x1b[31m") {
		t.Errorf("got %q with colours, want red", got)
	}
}
