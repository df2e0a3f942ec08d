package pgserver

import "syscall"

// procAttr has nothing to set: Windows has neither users by number nor death signals.
func procAttr(*account, syscall.Signal) *syscall.SysProcAttr { return nil }
