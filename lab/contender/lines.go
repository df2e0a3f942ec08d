package contender

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// lineFile is a file of lines "seq unixMicros". Its add may be called from many
// goroutines.
type lineFile struct {
	mu   sync.Mutex
	file *os.File
	buf  *bufio.Writer
	line []byte
	err  error // the first one of add
}

func createLines(name string) (*lineFile, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("lines: %w", err)
	}
	return &lineFile{file: file, buf: bufio.NewWriterSize(file, 1<<16)}, nil
}

func (f *lineFile) add(seq int64, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line = strconv.AppendInt(f.line[:0], seq, 10)
	f.line = append(f.line, ' ')
	f.line = strconv.AppendInt(f.line, at.UnixMicro(), 10)
	f.line = append(f.line, '\n')
	if _, err := f.buf.Write(f.line); err != nil && f.err == nil {
		f.err = err
	}
}

// close writes what is left, and returns the first error there was.
func (f *lineFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.err
	if flushErr := f.buf.Flush(); err == nil {
		err = flushErr
	}
	if closeErr := f.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("lines: %w", err)
	}
	return nil
}
