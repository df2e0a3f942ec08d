package request

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/later-queue/later"
)

// MaxLineBytes is the longest line: the largest payload, and room for the other
// fields (headers, with every character escaped, take 48 KiB).
const MaxLineBytes = later.MaxPayloadBytes + 64<<10

// LineError is a line that asks for no job. Its chain has the
// [later.FieldError].
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Reader reads jobs from JSON lines. Lines that are empty are passed over. It
// needs memory for one line.
type Reader struct {
	in       *bufio.Reader
	defaults Job
	line     int
}

// NewReader returns a reader of in; defaults is what counts where a line says
// nothing.
func NewReader(in io.Reader, defaults Job) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 64<<10), defaults: defaults}
}

// Line is the number of the line that Next has read, from 1.
func (r *Reader) Line() int { return r.line }

// Next returns the next job, io.EOF when there is none, and a [LineError] for a
// line that is wrong, after which reading can go on.
func (r *Reader) Next() (Job, error) {
	for {
		line, err := r.readLine()
		if err != nil {
			return Job{}, err
		}
		if len(line) == 0 {
			continue
		}
		job, err := ParseLine(line, r.defaults)
		if err != nil {
			return Job{}, &LineError{Line: r.line, Err: err}
		}
		return job, nil
	}
}

// Skip passes over one line without looking into it.
func (r *Reader) Skip() error {
	_, err := r.readLine()
	var tooLong *LineError
	if errors.As(err, &tooLong) {
		return nil
	}
	return err
}

// readLine returns the next line without the white space around it. The memory
// is the caller's.
func (r *Reader) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(part) > MaxLineBytes {
			return nil, r.tooLong(err)
		}
		line = append(line, part...)
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) == 0:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, fmt.Errorf("read line %d: %w", r.line+1, err)
		}
		r.line++
		if r.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		return bytes.TrimSpace(line), nil
	}
}

// tooLong passes over the rest of a line of which err was the last read's.
func (r *Reader) tooLong(err error) error {
	r.line++
	for err == bufio.ErrBufferFull {
		_, err = r.in.ReadSlice('\n')
	}
	return &LineError{Line: r.line, Err: &later.FieldError{
		Field: "line", Reason: fmt.Sprintf("has more than %d bytes", MaxLineBytes)}}
}
