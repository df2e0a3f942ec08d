// Command gotest runs `go test` and fails when a test was skipped: a green run means
// that everything ran.
//
//	go run ./internal/gotest -race ./...
//
// It prints what go test prints, less the output of tests that pass, and ends with
// one line: "312 passed, 0 failed".
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		fail(err)
	}
	if err := cmd.Start(); err != nil {
		fail(err)
	}
	r := newReport(os.Stdout)
	readErr := r.read(events)
	runErr := cmd.Wait()
	r.close()
	if readErr != nil {
		fail(readErr)
	}
	// A package that does not build fails the run without failing a test.
	if runErr != nil || !r.ok() {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "gotest:", err)
	os.Exit(1)
}
