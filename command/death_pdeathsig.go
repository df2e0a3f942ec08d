//go:build linux || freebsd

package command

import "syscall"

// dieWithParent lets the system kill the command when the worker dies. SIGKILL
// and not SIGTERM: a command that ignored it would still run when the job runs
// again elsewhere. The setting is not inherited by what the command starts.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
