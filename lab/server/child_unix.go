//go:build unix && !linux

package server

import "syscall"

// diesWithUs is the one of Linux without the death signal, which other systems lack.
func diesWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
