//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// Event is something that happened to the terminal.
type Event int

const (
	Resize  Event = iota // it has another size
	Suspend              // the person pressed Ctrl-Z
)

// Events delivers what happens to the terminal until stop is called.
func Events() (events <-chan Event, stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTSTP)
	out, done := make(chan Event), make(chan struct{})
	go func() {
		for {
			event := Resize
			select {
			case s := <-signals:
				if s == syscall.SIGTSTP {
					event = Suspend
				}
			case <-done:
				return
			}
			select {
			case out <- event:
			case <-done:
				return
			}
		}
	}()
	return out, func() { signal.Stop(signals); close(done) }
}

// SuspendProcess stops the process as Ctrl-Z does, and returns when it is
// continued.
func SuspendProcess() {
	// Kill may return before the process has stopped, so it is the other end
	// that is waited for.
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) // a process may always signal itself
	<-continued
}
