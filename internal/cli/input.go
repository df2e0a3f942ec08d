package cli

import (
	"context"
	"io"
)

// until returns in as a reader that ends with ctx: a read from a terminal or a
// pipe cannot be ended by itself. What a read that was given up still gets is
// lost, so nothing else may read from in afterwards.
func until(ctx context.Context, in io.Reader) io.Reader {
	return &endingReader{ctx: ctx, in: in, results: make(chan readResult, 1)}
}

type endingReader struct {
	ctx     context.Context
	in      io.Reader
	results chan readResult
	rest    []byte // read, and not asked for yet
	err     error
}

type readResult struct {
	data []byte
	err  error
}

// Read implements io.Reader.
func (r *endingReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		go func() {
			buffer := make([]byte, 64<<10)
			n, err := r.in.Read(buffer)
			r.results <- readResult{buffer[:n], err}
		}()
		select {
		case result := <-r.results:
			r.rest, r.err = result.data, result.err
		case <-r.ctx.Done():
			r.err = context.Cause(r.ctx)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	if n > 0 {
		return n, nil
	}
	return 0, r.err
}
