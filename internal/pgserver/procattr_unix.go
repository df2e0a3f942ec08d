//go:build unix && !linux

package pgserver

import "syscall"

// procAttr is the one of Linux without the death signal, which other systems lack.
func procAttr(user *account, _ syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if user != nil {
		attr.Credential = &syscall.Credential{Uid: user.uid, Gid: user.gid}
	}
	return attr
}
