package server

import "syscall"

// diesWithUs makes a child that is killed when we die, and that does not get the
// terminal's Ctrl-C, which is ours.
func diesWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
