package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/internal/request"
	"github.com/later-queue/later/internal/spelling"
	"github.com/later-queue/later/internal/terminal"
)

// The exit codes, as rootHelp documents them.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRunning     = 4
	exitUnavailable = 5
	exitSchema      = 6
	exitSignal      = 128 // and the signal's number
)

// problem is an error with what a person can do about it.
type problem struct {
	err  error
	code string // for programs
	exit int
	hint string
}

// Error leaves out the words of [later.ErrSchema]: the exit code and what follows
// them say the same.
func (p *problem) Error() string {
	text := p.err.Error()
	if errors.Is(p.err, later.ErrSchema) {
		text = strings.ReplaceAll(text, later.ErrSchema.Error()+": ", "")
		text = strings.ReplaceAll(text, ", or open the store without NoMigrate", "")
	}
	return text
}

func (p *problem) Unwrap() error { return p.err }

// refusal is an error of a server in the server's own words.
type refusal struct {
	text string
	err  error
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.err }

// next sets what to do about it.
func (p *problem) next(format string, args ...any) *problem {
	p.hint = fmt.Sprintf(format, args...)
	return p
}

// usageError is a command, flag or argument that is wrong.
func usageError(format string, args ...any) *problem {
	return &problem{err: fmt.Errorf(format, args...), code: "usage", exit: exitUsage}
}

func didYouMean(word string, words []string) string { return spelling.DidYouMean(word, words) }

// report prints an error, in one line, and returns its exit code.
func (a *App) report(err error) int {
	p := classify(err, a.flags.db)
	a.printProblem(p)
	return p.exit
}

// problemView is a problem with --json.
type problemView struct {
	Error struct {
		Code    string `json:"code"`
		Exit    int    `json:"exit"`
		Message string `json:"message"`
		Next    string `json:"next,omitempty"`
		Field   string `json:"field,omitempty"` // of the job's data
		Path    string `json:"path,omitempty"`  // inside the payload
		Line    int    `json:"line,omitempty"`  // of the bulk file
	} `json:"error"`
}

func viewProblem(p *problem) problemView {
	var view problemView
	view.Error.Code, view.Error.Exit, view.Error.Message, view.Error.Next = p.code, p.exit, p.Error(), p.hint
	var field *later.FieldError
	if errors.As(p.err, &field) {
		view.Error.Field, view.Error.Path = field.Field, field.Path
	}
	var line *request.LineError
	if errors.As(p.err, &line) {
		view.Error.Line = line.Line
	}
	return view
}

func (a *App) printProblem(p *problem) {
	if a.flags.json {
		enc := json.NewEncoder(a.safeJSON(a.Err))
		enc.SetEscapeHTML(false)
		_ = enc.Encode(viewProblem(p)) // nowhere is left to report that standard error is gone
		return
	}
	text := p.Error()
	if p.hint != "" {
		text += "; " + p.hint
	}
	red := terminal.NewPalette(a.colours(a.Err)).Bad
	fmt.Fprintf(a.Err, "%s %s\n", red("later:"), terminal.Safe(oneLine(text)))
}

// oneLine joins the lines of an error, and leaves out those that repeat
// another: a driver reports each address that it tried.
func oneLine(text string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		line = strings.Join(strings.Fields(line), " ")
		repeats := func(other string) bool { return strings.Contains(other, line) }
		if line != "" && !slices.ContainsFunc(lines, repeats) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

// classify finds the exit code of an error, and the advice where the error
// brings none. db is the database's URL, for the advice.
func classify(err error, db string) *problem {
	var known *problem
	if errors.As(err, &known) {
		return known
	}
	p := &problem{err: err, code: "failed", exit: exitFailed}
	var signalled *signalError
	switch {
	case errors.As(err, &signalled):
		p.code, p.exit = "interrupted", exitSignal+signalled.number
	case errors.Is(err, open.ErrURL):
		p.code, p.exit = "usage", exitUsage
	case errors.Is(err, open.ErrNoFile):
		p.code, p.exit = "schema", exitSchema
		p.hint = "is --db right? `later migrate up` or a first `later enqueue` creates it"
	case errors.Is(err, later.ErrInvalid):
		p.code, p.exit = "invalid", exitUsage
	case errors.Is(err, later.ErrNotFound):
		p.code, p.exit = "not_found", exitNotFound
		p.hint = "`later list` shows the jobs that there are"
	case errors.Is(err, later.ErrRunning):
		p.code, p.exit = "running", exitRunning
		p.hint = "`later cancel ID` asks its worker to stop it"
	case errors.Is(err, later.ErrKeyHeld):
		p.code, p.exit = "key_held", exitRunning
		p.hint = "retry it when that one has ended, or `later delete` one of the two"
	case errors.Is(err, later.ErrSchema):
		p.code, p.exit = "schema", exitSchema
		if !strings.Contains(err.Error(), "later migrate") {
			p.hint = "run `later migrate up --db " + open.Redact(db) + "`"
		}
	case errors.Is(err, later.ErrFull):
		p.code, p.exit = "full", exitUnavailable
		p.hint = "nothing was stored; make room and run it again"
	case errors.Is(err, later.ErrUnavailable):
		p.code, p.exit = "unavailable", exitUnavailable
		p.hint = "does the database run, and is --db right?"
		if text, refused := open.Refusal(err); refused {
			p.err, p.hint = &refusal{text: text, err: err}, "is --db right?"
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p.code = "interrupted"
	}
	return p
}
