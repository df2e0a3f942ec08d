package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/request"
)

const (
	// bulkJobs and bulkBytes bound one insert, whichever comes first. Chosen: a
	// statement of a few megabytes costs no more per job than a larger one.
	bulkJobs  = 1000
	bulkBytes = 4 << 20

	// atomicBytes bounds what --atomic keeps in memory and in one statement.
	// Postgres takes less than 1 GiB in one value, and the encoding adds to it.
	atomicBytes = 256 << 20
)

// bulkInput is where the lines come from.
type bulkInput struct {
	io.Reader
	close  func()
	rewind func() error // nil: it can be read only once
	name   string
}

func (a *App) openBulk(ctx context.Context, name string) (*bulkInput, error) {
	if name == "-" {
		return &bulkInput{Reader: until(ctx, a.In), close: func() {}, name: "standard input"}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, usageError("--bulk: %w", err)
	}
	in := &bulkInput{Reader: file, close: func() { file.Close() }, name: name}
	info, err := file.Stat()
	switch {
	case err != nil:
		file.Close()
		return nil, fmt.Errorf("--bulk: %w", err)
	case info.IsDir():
		file.Close()
		return nil, usageError("--bulk: %s is a directory", name)
	case info.Mode().IsRegular():
		in.rewind = func() error {
			_, err := file.Seek(0, io.SeekStart)
			return err
		}
	}
	return in, nil
}

// bulkResult is what was stored, as --json prints it.
type bulkResult struct {
	Inserted int    `json:"inserted"`
	FirstID  string `json:"first_id,omitempty"`
	LastID   string `json:"last_id,omitempty"`
	// Of jobs whose keys others hold:
	Skipped int `json:"skipped,omitempty"` // left as they are
	Changed int `json:"changed,omitempty"` // replaced or postponed

	first, last int64
}

// add counts what became of the jobs of a batch.
func (r *bulkResult) add(done []later.Enqueued) {
	for _, one := range done {
		switch one.Outcome {
		case later.Inserted:
			if r.Inserted == 0 || one.ID < r.first {
				r.first = one.ID
			}
			r.Inserted, r.last = r.Inserted+1, max(r.last, one.ID)
			r.FirstID, r.LastID = formatID(r.first), formatID(r.last)
		case later.Skipped:
			r.Skipped++
		default:
			r.Changed++
		}
	}
}

// text is the result as people read it.
func (r *bulkResult) text() string {
	text := "0 jobs"
	switch {
	case r.Inserted == 1:
		text = "1 job, id " + r.FirstID
	case r.Inserted > 1:
		text = fmt.Sprintf("%d jobs, ids %s to %s", r.Inserted, r.FirstID, r.LastID)
	}
	if r.Skipped > 0 {
		text += fmt.Sprintf("; %d not stored, because others hold their keys", r.Skipped)
	}
	if r.Changed > 0 {
		text += fmt.Sprintf("; %d changed the jobs that hold their keys", r.Changed)
	}
	return text
}

func (a *App) enqueueBulk(ctx context.Context, f *enqueueFlags, defaults request.Job) error {
	if f.atomic && f.fromLine > 1 {
		return usageError("--atomic and --from-line exclude each other: after a failed --atomic nothing was stored")
	}
	in, err := a.openBulk(ctx, f.bulk)
	if err != nil {
		return err
	}
	defer in.close()
	total := -1
	if in.rewind != nil { // a file: no job is stored unless all are right
		if total, err = checkLines(ctx, in, f.fromLine, defaults); err != nil {
			return nothingStored(err)
		}
		if err := in.rewind(); err != nil {
			return fmt.Errorf("--bulk: %w", err)
		}
	}
	b := &bulkInsert{progress: a.newProgress("enqueue", total), fromLine: f.fromLine, atomic: f.atomic}
	defer b.progress.finish()
	err = a.withStore(ctx, creating, func(store later.Store) error {
		b.store = store
		return b.all(ctx, in, defaults)
	})
	b.progress.finish()
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(b.result)
	}
	if b.result == (bulkResult{}) {
		return a.printf("0 jobs: %s has no lines\n", in.name)
	}
	return a.printf("%s\n", b.result.text())
}

// checkLines reads everything once and returns the number of jobs.
func checkLines(ctx context.Context, in io.Reader, fromLine int, defaults request.Job) (int, error) {
	r := request.NewReader(in, defaults)
	if err := skipTo(r, fromLine); err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if _, err := r.Next(); err == io.EOF {
			return n, nil
		} else if err != nil {
			return 0, err
		}
	}
}

func skipTo(r *request.Reader, line int) error {
	for r.Line() < line-1 {
		if err := r.Skip(); err == io.EOF {
			return usageError("--from-line is %d, but there are only %d lines", line, r.Line())
		} else if err != nil {
			return err
		}
	}
	return nil
}

// bulkInsert stores jobs in batches.
type bulkInsert struct {
	store    later.Store
	progress *progress
	fromLine int
	atomic   bool

	batch  []later.NewJob
	bytes  int
	stored int // the last line whose job is stored
	result bulkResult
}

func (b *bulkInsert) all(ctx context.Context, in io.Reader, defaults request.Job) error {
	r := request.NewReader(in, defaults)
	b.stored = b.fromLine - 1
	if err := skipTo(r, b.fromLine); err != nil {
		return err
	}
	last := b.stored // the last line of the batch
	for {
		job, err := r.Next()
		if err == nil {
			err = ctx.Err()
		}
		if err == io.EOF {
			return b.insert(ctx, last)
		}
		if err != nil {
			return b.stopped(err)
		}
		req := job.Request()
		built, err := later.Build(req.Args, req.Options)
		if err != nil { // ParseLine has built it before
			return b.stopped(&request.LineError{Line: r.Line(), Err: err})
		}
		b.batch, b.bytes, last = append(b.batch, built), b.bytes+len(built.Payload), r.Line()
		switch {
		case b.atomic && b.bytes > atomicBytes:
			return usageError("--atomic: the payloads have more than %d bytes together, too much for one transaction", atomicBytes).
				next("nothing was stored; leave --atomic out to store them in batches")
		case !b.atomic && (len(b.batch) >= bulkJobs || b.bytes >= bulkBytes):
			if err := b.insert(ctx, last); err != nil {
				return err
			}
		}
	}
}

// insert stores the batch, which ends with the given line.
func (b *bulkInsert) insert(ctx context.Context, last int) error {
	if len(b.batch) == 0 {
		return nil
	}
	done, err := b.store.Insert(ctx, b.batch)
	if err != nil {
		return b.failed(fmt.Errorf("enqueue lines %d to %d: %w", b.stored+1, last, err), last)
	}
	b.result.add(done)
	b.progress.add(len(done))
	b.stored, b.batch, b.bytes = last, b.batch[:0], 0
	return nil
}

// stopped is the error of a line, with what was stored before.
func (b *bulkInsert) stopped(err error) error {
	if b.result.Inserted == 0 {
		return nothingStored(err)
	}
	return b.partly(err)
}

// failed is the error of an insert. Where the database was gone nobody knows
// whether the batch was stored.
func (b *bulkInsert) failed(err error, last int) error {
	maybe := errors.Is(err, later.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case maybe:
		p := b.partly(err)
		p.hint = fmt.Sprintf("%s; whether lines %d to %d were stored is unknown: see `later list` before going on with --from-line %d or %d",
			b.soFar(), b.stored+1, last, b.stored+1, last+1)
		return p
	case b.result.Inserted == 0:
		return nothingStored(err)
	}
	return b.partly(err)
}

func (b *bulkInsert) partly(err error) *problem {
	p := *classify(err, "")
	p.err = err
	return (&p).next("%s, nothing after; go on with --from-line %d", b.soFar(), b.stored+1)
}

func (b *bulkInsert) soFar() string {
	if b.result.Inserted == 0 {
		return "no job was stored before"
	}
	return fmt.Sprintf("%d jobs were stored, of the lines up to %d", b.result.Inserted, b.stored)
}

func nothingStored(err error) error {
	p := *classify(err, "")
	p.err = err
	return (&p).next("nothing was stored")
}
