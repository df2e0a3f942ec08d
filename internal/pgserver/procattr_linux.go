package pgserver

import (
	"os"
	"syscall"
)

// procAttr makes the child's attributes: a process group of its own, so that Ctrl-C
// in a terminal reaches us and not the servers; the user; the death signal.
func procAttr(user *account, deathSignal syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
	if user != nil {
		attr.Credential = &syscall.Credential{Uid: user.uid, Gid: user.gid}
	}
	return attr
}

// killGroup kills a process that [procAttr] gave a group of its own, with its children.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
