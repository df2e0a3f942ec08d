package later

import (
	"errors"
	"fmt"
)

// Errors of a request that can never succeed as it is. Nothing was written.
var (
	// ErrInvalid is matched by every [FieldError].
	ErrInvalid = errors.New("invalid job")
	// ErrPayload is matched when a payload cannot be stored or decoded.
	ErrPayload = errors.New("payload could not be decoded")
	// ErrNotFound means that no job, waiting, running or dead, has that id.
	ErrNotFound = errors.New("job not found")
	// ErrRunning means that the job is running and the operation must not
	// touch it.
	ErrRunning = errors.New("job is running")
	// ErrKeyHeld is matched by a [KeyHeldError]: a dead job cannot come back, because
	// another one holds its key.
	ErrKeyHeld = errors.New("key is held by another job")
	// ErrSchema means that the database's tables are missing, or of a version
	// that this program does not work with.
	ErrSchema = errors.New("schema does not fit")
)

// Errors of a lease.
var (
	// ErrLeaseLost means that (id, token) no longer holds the job: its lease
	// ended and somebody else claimed it, or it was settled, cancelled or
	// deleted. It is also the cause of a handler's context that ended for that
	// reason.
	ErrLeaseLost = errors.New("lease lost")
	// ErrTimeout is the cause of a handler's context whose job ran longer than
	// its timeout.
	ErrTimeout = errors.New("timed out")
	// ErrCancelled is the cause of a handler's context whose job an operator
	// cancelled.
	ErrCancelled = errors.New("job cancelled")
	// ErrShutdown is the cause of a handler's context whose worker reached its
	// drain deadline. The job is released and runs again elsewhere, without
	// having been charged an attempt.
	ErrShutdown = errors.New("worker is shutting down")
)

// Errors of the database. The operation may be tried again.
var (
	// ErrUnavailable means that the database could not be reached, refused
	// connections, is read-only, or kept aborting the statement. Whether the
	// operation took effect is unknown.
	ErrUnavailable = errors.New("database unavailable")
	// ErrFull means that the database has no space left. The operation did not
	// take effect.
	ErrFull = errors.New("database is full")
)

// ErrClosed means that the store was closed.
var ErrClosed = errors.New("store is closed")

// IsTransient reports whether err comes from a state of the database that
// ends by itself, so that the same operation is worth trying again.
func IsTransient(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFull)
}

// FieldError says which field of a request is wrong, and what would be right.
// It matches [ErrInvalid] and, for the field "payload", [ErrPayload].
type FieldError struct {
	Field  string // as in [Options]: "queue", "kind", "max_attempts", …
	Path   string // inside the payload, as in $.items[3].name; else empty
	Reason string
}

func (e *FieldError) Error() string {
	if e.Path != "" {
		return fmt.Sprintf("%s at %s: %s", e.Field, e.Path, e.Reason)
	}
	return e.Field + " " + e.Reason
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *FieldError) Is(target error) bool {
	return target == ErrInvalid || target == ErrPayload && e.Field == "payload"
}
