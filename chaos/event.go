package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// Event kinds, one letter each in the log.
const (
	evClaim  = "C" // a claim returned this job
	evRenew  = "R" // a renewal of this lease was confirmed
	evSend   = "S" // a settle is about to be sent
	evAccept = "A" // that settle was accepted
	evRefuse = "X" // that settle was refused
	evBegin  = "B" // a handler began
	evEffect = "E" // a handler had its effect
)

// event is a line of a worker's log. Times are the machine's wall clock in
// nanoseconds: all processes and the database share one machine.
type event struct {
	kind   string
	sent   int64 // when the statement was sent, or the thing happened
	reply  int64 // when its answer came
	id     int64
	token  int64
	number int64  // of a claim: the attempt; of a begin or effect: the job's n
	word   string // outcome or doom
	worker string // from the file's name
}

// recorder appends events to a file.
type recorder struct {
	mu   sync.Mutex
	file *os.File
}

// newRecorder opens the log of one worker process.
func newRecorder(dir, name string) (*recorder, error) {
	file, err := os.OpenFile(filepath.Join(dir, name+".events"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}
	return &recorder{file: file}, nil
}

// add writes all events in one call: after it returns they survive the process.
func (r *recorder) add(events ...event) {
	var b strings.Builder
	for _, e := range events {
		if e.word == "" {
			e.word = "-"
		}
		fmt.Fprintf(&b, "%s %d %d %d %d %d %s\n", e.kind, e.sent, e.reply, e.id, e.token, e.number, e.word)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.file.WriteString(b.String()); err != nil {
		panic("event log: " + err.Error()) // a history with holes proves nothing
	}
}

func now() int64 { return time.Now().UnixNano() }

// leaseEvent is an event about a lease.
func leaseEvent(kind string, sent, reply int64, lease later.Lease, word string) event {
	return event{kind: kind, sent: sent, reply: reply, id: lease.ID, token: lease.Token, word: word}
}

// readEvents returns every event of every log in dir, in no order.
func readEvents(dir string) ([]event, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.events"))
	if err != nil {
		return nil, err
	}
	var all []event
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		events, err := parseEvents(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		worker := strings.TrimSuffix(filepath.Base(name), ".events")
		for i := range events {
			events[i].worker = worker
		}
		all = append(all, events...)
	}
	return all, nil
}

// parseEvents reads a log. A last line without its end is what a process wrote
// when it was killed: what it tells of was not yet relied on.
func parseEvents(text string) ([]event, error) {
	var events []event
	for {
		line, rest, ended := strings.Cut(text, "\n")
		if !ended {
			return events, nil
		}
		e, err := parseEvent(line)
		if err != nil {
			return nil, err
		}
		events, text = append(events, e), rest
	}
}

func parseEvent(line string) (event, error) {
	parts := strings.Fields(line)
	if len(parts) != 7 {
		return event{}, fmt.Errorf("event %q has %d fields, want 7", line, len(parts))
	}
	var numbers [5]int64
	for i := range numbers {
		n, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil {
			return event{}, fmt.Errorf("event %q: %w", line, err)
		}
		numbers[i] = n
	}
	return event{
		kind: parts[0], sent: numbers[0], reply: numbers[1], id: numbers[2],
		token: numbers[3], number: numbers[4], word: parts[6],
	}, nil
}
