package pgserver

import (
	"os"
	"syscall"
)

// procAttr has nothing to set: Windows has neither users by number nor death signals.
func procAttr(*account, syscall.Signal) *syscall.SysProcAttr { return nil }

// killGroup kills the process alone.
func killGroup(p *os.Process) { _ = p.Kill() }
