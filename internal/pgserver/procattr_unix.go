//go:build unix && !linux

package pgserver

import (
	"os"
	"syscall"
)

// procAttr is the one of Linux without the death signal, which other systems lack.
func procAttr(user *account, _ syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if user != nil {
		attr.Credential = &syscall.Credential{Uid: user.uid, Gid: user.gid}
	}
	return attr
}

// killGroup kills a process that [procAttr] gave a group of its own, with its children.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
