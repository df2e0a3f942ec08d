package command

// tail is a writer that keeps the last bytes of what is written to it.
type tail struct {
	limit int
	data  []byte // at most twice the limit
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > t.limit {
		p = p[len(p)-t.limit:]
	}
	if len(t.data)+len(p) > 2*t.limit {
		// One copy for each limit bytes written, so that the cost of a byte
		// does not depend on the limit.
		kept := copy(t.data, t.data[len(t.data)-(t.limit-min(len(p), t.limit)):])
		t.data = t.data[:kept]
	}
	t.data = append(t.data, p...)
	return n, nil
}

// Bytes is what was kept; it belongs to the caller after the last Write.
func (t *tail) Bytes() []byte {
	if len(t.data) > t.limit {
		return t.data[len(t.data)-t.limit:]
	}
	return t.data
}
