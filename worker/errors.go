package worker

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrBusy is returned by Run and Drain while one of them is under way.
	ErrBusy = errors.New("worker: already running")
	// ErrStuck is returned by Run when handlers that ignore their ended context
	// hold all slots: only a restart of the process helps.
	ErrStuck = errors.New("worker: all slots are held by handlers that do not return")
	// ErrDrainDeadline is matched by every [DrainError], whether the time was
	// over at a deadline or by a second signal.
	ErrDrainDeadline = errors.New("worker: drain deadline passed")
)

// DrainError says what a drain left behind when its time was over, or what a
// Drain that found no more work left running. It matches [ErrDrainDeadline].
type DrainError struct {
	// Running are the jobs whose handlers have not returned. They were released
	// (or settled when their handlers were abandoned), unless Unsettled names
	// them too.
	Running []LeftJob
	// Unsettled are the jobs whose result could not be stored in time. They
	// will be claimed again when their lease ends.
	Unsettled []LeftJob
}

// LeftJob names a job in a [DrainError].
type LeftJob struct {
	ID   int64
	Kind string
}

// mostNamed bounds how many jobs an error's text names. The fields have all.
const mostNamed = 20

func (e *DrainError) Error() string {
	var parts []string
	if len(e.Running) > 0 {
		parts = append(parts, "still running: "+nameJobs(e.Running))
	}
	if len(e.Unsettled) > 0 {
		parts = append(parts, "result not stored: "+nameJobs(e.Unsettled))
	}
	// Not ErrDrainDeadline's text: a second signal is no deadline.
	return "worker: jobs left behind; " + strings.Join(parts, "; ")
}

// Is makes errors.Is(err, ErrDrainDeadline) true.
func (e *DrainError) Is(target error) bool { return target == ErrDrainDeadline }

func nameJobs(jobs []LeftJob) string {
	var b strings.Builder
	for i, job := range jobs {
		if i == mostNamed {
			fmt.Fprintf(&b, " and %d more", len(jobs)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "job %d (%s)", job.ID, job.Kind)
	}
	return b.String()
}
