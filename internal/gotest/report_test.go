package main

import (
	"strings"
	"testing"
)

// read feeds lines of go test -json to a report and returns what it printed.
func read(t *testing.T, lines ...string) (*report, string) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	r.close()
	return r, out.String()
}

func TestReport(t *testing.T) {
	t.Run("counts passes and keeps quiet about them", func(t *testing.T) {
		r, out := read(t,
			`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
			`{"Action":"pass","Package":"p","Test":"TestA"}`,
			`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
			`{"Action":"pass","Package":"p"}`)
		if want := "ok  \tp\t0.1s\n1 passed, 0 failed\n"; out != want {
			t.Errorf("got %q, want %q", out, want)
		}
		if !r.ok() {
			t.Error("got a failed run, want a good one")
		}
	})
	t.Run("shows what a failed test printed", func(t *testing.T) {
		r, out := read(t,
			`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: got 1, want 2\n"}`,
			`{"Action":"fail","Package":"p","Test":"TestA"}`,
			`{"Action":"fail","Package":"p"}`)
		if !strings.Contains(out, "got 1, want 2") || !strings.HasSuffix(out, "0 passed, 1 failed\n") {
			t.Errorf("got %q, want the test's output and one failure", out)
		}
		if r.ok() {
			t.Error("got a good run, want a failed one")
		}
	})
	t.Run("a skipped test fails the run and is named", func(t *testing.T) {
		r, out := read(t,
			`{"Action":"pass","Package":"p","Test":"TestA"}`,
			`{"Action":"skip","Package":"p","Test":"TestB"}`,
			`{"Action":"pass","Package":"p"}`)
		if !strings.Contains(out, "p TestB") || !strings.HasSuffix(out, "1 passed, 1 failed\n") {
			t.Errorf("got %q, want TestB named and counted", out)
		}
		if r.ok() {
			t.Error("got a good run, want a failed one")
		}
	})
	t.Run("a package without test files is no skip", func(t *testing.T) {
		r, _ := read(t,
			`{"Action":"pass","Package":"p","Test":"TestA"}`,
			`{"Action":"skip","Package":"q"}`)
		if !r.ok() {
			t.Error("got a failed run, want a good one")
		}
	})
	t.Run("shows the output of a test whose process died", func(t *testing.T) {
		_, out := read(t,
			`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}`,
			`{"Action":"fail","Package":"p"}`)
		if !strings.Contains(out, "panic: boom") {
			t.Errorf("got %q, want the panic in it", out)
		}
	})
	t.Run("shows the errors of a package that does not build", func(t *testing.T) {
		_, out := read(t,
			`{"ImportPath":"p","Action":"build-output","Output":"p/a.go:1:1: undefined: x\n"}`,
			`{"Action":"fail","Package":"p"}`)
		if !strings.Contains(out, "undefined: x") {
			t.Errorf("got %q, want the compiler's error in it", out)
		}
	})
	t.Run("a run without any test is no success", func(t *testing.T) {
		if r, _ := read(t, `{"Action":"skip","Package":"q"}`); r.ok() {
			t.Error("got a good run, want a failed one")
		}
	})
}
