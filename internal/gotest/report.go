package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// name is the test that an event is about.
type name struct{ pkg, test string }

// report turns events into text and counts.
type report struct {
	out     io.Writer
	passed  int
	failed  int
	skipped []name
	pending map[name][]string // output of tests that have not ended
}

func newReport(out io.Writer) *report {
	return &report{out: out, pending: map[name][]string{}}
}

// read takes events until the end of the stream. A line that is no event is printed
// as it is.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.take(e)
			} else {
				r.out.Write(line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the output of go test: %w", err)
		}
	}
}

func (r *report) take(e event) {
	n := name{e.Package, e.Test}
	switch {
	case e.Action == "output" && e.Test != "":
		r.pending[n] = append(r.pending[n], e.Output)
	case e.Output == "PASS\n":
		// Said again by the package's closing line.
	case e.Action == "output" || e.Action == "build-output":
		// A package's own lines, its closing "ok" or "FAIL" among them.
		fmt.Fprint(r.out, e.Output)
	case e.Test == "" && e.Action == "fail":
		// A test that was running when its process died has no end of its own.
		r.showPackage(e.Package)
	case e.Test == "":
		// A package's "skip" says that it has no test files.
	case e.Action == "pass":
		r.passed++
		delete(r.pending, n)
	case e.Action == "fail":
		r.failed++
		r.show(n)
	case e.Action == "skip":
		r.skipped = append(r.skipped, n)
		r.show(n)
	}
}

func (r *report) show(n name) {
	for _, line := range r.pending[n] {
		fmt.Fprint(r.out, line)
	}
	delete(r.pending, n)
}

func (r *report) showPackage(pkg string) {
	var left []name
	for n := range r.pending {
		if n.pkg == pkg {
			left = append(left, n)
		}
	}
	sort.Slice(left, func(i, j int) bool { return left[i].test < left[j].test })
	for _, n := range left {
		r.show(n)
	}
}

// close prints the closing line, and before it each skipped test.
func (r *report) close() {
	for _, n := range r.skipped {
		fmt.Fprintf(r.out, "skipped, which is a failure here: %s %s\n", n.pkg, n.test)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed\n", r.passed, r.failed+len(r.skipped))
}

// ok reports whether at least one test ran, and none failed or was skipped.
func (r *report) ok() bool { return r.failed == 0 && len(r.skipped) == 0 && r.passed > 0 }
