//go:build !unix

package command

import (
	"os"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return nil }

// There are no process groups and no SIGTERM here: the command itself is
// killed, and what it started stays.
func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }

func signalName(*os.ProcessState) string { return "" }
