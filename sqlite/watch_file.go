package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"
)

const (
	// lookEvery is how often the file is looked at while somebody waits. Chosen:
	// nobody notices 25 ms, and forty looks a second took 0.7% of a core on a
	// busy machine, most of it for waking up.
	lookEvery = 25 * time.Millisecond
	// mtimeGrain is how far apart two writes have to be for the file's time to
	// tell them apart: Linux takes it from its tick, which is 10 ms at most.
	// Doubled to be safe.
	mtimeGrain = 20 * time.Millisecond
)

// walFile is the path of a file's write-ahead log, to which every commit of
// every process is written; empty for a database in memory. It is only ever
// looked at by its name: closing any descriptor of a file that SQLite has open
// would drop SQLite's own locks (POSIX advisory locks), so the exact counter of
// commits beside it, in the shared memory, is out of reach.
type walFile string

// walState is how the file looks.
type walState struct {
	exists bool
	size   int64
	mtime  time.Time
	// settled says that the last write was long enough ago that another one would
	// show.
	settled bool
}

// state looks at the file.
func (f walFile) state() (walState, error) {
	info, err := os.Stat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return walState{settled: true}, nil
	}
	if err != nil {
		return walState{}, err
	}
	age := time.Since(info.ModTime())
	return walState{exists: true, size: info.Size(), mtime: info.ModTime(), settled: age.Abs() > mtimeGrain}, nil
}

// reliable reports whether a commit shows at once.
func (f walFile) reliable() bool { return f == "" || runtime.GOOS != "windows" }

// changed reports whether something may have been written between two looks.
func (s walState) changed(now walState) bool {
	return !s.settled || s.exists != now.exists || s.size != now.size || !s.mtime.Equal(now.mtime)
}

// look tells those who wait when the file has changed since the last look. It
// needs mu.
func (w *watches) look() {
	if w.file == "" {
		w.heard = true
		return
	}
	w.looks++
	state, err := w.file.state()
	heard := err == nil && w.file.reliable()
	if heard != w.heard || heard && w.seen.changed(state) {
		w.tell(nil)
	}
	w.seen, w.heard = state, heard
}

// ensureLooker has somebody look at the file while somebody waits. It needs mu.
func (w *watches) ensureLooker() {
	if w.file == "" {
		return
	}
	if w.stop == nil {
		w.stop, w.ended = make(chan struct{}), make(chan struct{})
		go w.looker(w.stop, w.ended)
	}
	select {
	case w.begun <- struct{}{}:
	default:
	}
}

// stopLooker has the looker end, and returns what is closed then; nil when there
// never was one. It needs mu.
func (w *watches) stopLooker() (ended chan struct{}) {
	if w.stop != nil {
		close(w.stop)
		w.stop = nil
	}
	return w.ended
}

// looker looks at the file from time to time, and rests while nobody waits.
func (w *watches) looker(stop, ended chan struct{}) {
	defer close(ended)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		w.mu.Lock()
		resting := w.waiting == 0
		if !resting {
			w.look()
		}
		w.mu.Unlock()
		if !resting {
			continue
		}
		ticker.Stop()
		select {
		case <-stop:
			return
		case <-w.begun:
			ticker.Reset(lookEvery)
		}
	}
}
