//go:build !unix

package terminal

// Event is something that happened to the terminal.
type Event int

const (
	Resize  Event = iota // it has another size
	Suspend              // the person pressed Ctrl-Z
)

// Events delivers nothing: this system does not tell. The size is asked for at
// each drawing anyway.
func Events() (events <-chan Event, stop func()) { return nil, func() {} }

// SuspendProcess does nothing.
func SuspendProcess() {}
