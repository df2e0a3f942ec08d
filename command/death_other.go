//go:build unix && !linux && !freebsd

package command

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
