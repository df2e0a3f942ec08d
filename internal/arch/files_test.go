package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxLines is how long a file may be. From 400 on it asks to be two; this is the end.
const maxLines = 500

func TestFilesAreShort(t *testing.T) {
	for _, name := range files(t, ".go", ".sql") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(text, []byte("\n")); got > maxLines {
			t.Errorf("%s has %d lines, at most %d are allowed: split it by duty", name, got, maxLines)
		}
	}
}

func TestTestsNeitherSkipNorSleep(t *testing.T) {
	fakeClock := map[string]bool{} // by folder
	texts := map[string]string{}
	for _, name := range files(t, "_test.go") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
		if bytes.Contains(text, []byte(`"testing/synctest"`)) {
			fakeClock[filepath.Dir(name)] = true
		}
	}
	for name, text := range texts {
		for _, fault := range testFaults(t, name, text, fakeClock[filepath.Dir(name)]) {
			t.Error(fault)
		}
	}
}

// testFaults are the calls that a test may not make: a skipped test proves nothing, and
// a sleep for an event is too long on a quick machine and too short on a slow one. A
// sleep in a loop with a condition is polling, which is allowed, and in a package that uses
// testing/synctest a sleep only moves the fake clock.
func testFaults(t *testing.T, name, text string, fakeClock bool) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	var parents []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		parents = append(parents, n)
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		at := fset.Position(call.Pos())
		switch {
		case sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow":
			faults = append(faults, fmt.Sprintf("%s:%d: %s.%s: a missing condition fails a test", name, at.Line, of.Name, sel.Sel.Name))
		case of.Name == "time" && sel.Sel.Name == "Sleep" && !fakeClock && !slices.ContainsFunc(parents, isLoop):
			faults = append(faults, fmt.Sprintf("%s:%d: time.Sleep: wait for the event, with a deadline", name, at.Line))
		}
		return true
	})
	return faults
}

func isLoop(n ast.Node) bool {
	_, ok := n.(*ast.ForStmt)
	return ok
}

func TestTestFaults(t *testing.T) {
	const sleep = "func TestX(t *testing.T) { time.Sleep(1) }\n"
	for _, c := range []struct {
		behaviour, text string
		fakeClock       bool
		want            int
	}{
		{"finds a sleep", "package p\n" + sleep, false, 1},
		{"a sleep on the fake clock is no sleep", "package p\n" + sleep, true, 0},
		{"polling is allowed", "package p\nfunc TestX(t *testing.T) { for !done() { time.Sleep(1) } }\n", false, 0},
		{"a sleep for a count of times is not", "package p\nfunc TestX(t *testing.T) { for range 3 { time.Sleep(1) } }\n", false, 1},
		{"finds every way to skip", "package p\nfunc TestX(t *testing.T) { t.Skip(); t.Skipf(\"\"); t.SkipNow() }\n", true, 3},
		{"finds one inside a function literal", "package p\nvar f = func() { go func() { b.Skip() }() }\n", false, 1},
		{"leaves other calls alone", "package p\nfunc TestX(t *testing.T) { t.Fatal(); s.Sleep(); time.After(1) }\n", false, 0},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			if got := testFaults(t, "x_test.go", c.text, c.fakeClock); len(got) != c.want {
				t.Errorf("got %q, want %d faults", got, c.want)
			}
		})
	}
}
