package pgserver

import "syscall"

// procAttr makes the child's attributes: a process group of its own, so that Ctrl-C
// in a terminal reaches us and not the servers; the user; the death signal.
func procAttr(user *account, deathSignal syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
	if user != nil {
		attr.Credential = &syscall.Credential{Uid: user.uid, Gid: user.gid}
	}
	return attr
}
