package command

import (
	"syscall"
	"unsafe"
)

// wait returns when the command has ended, has been reaped, and what it left in
// its group was killed: in the order that keeps its id, which is the group's
// too, from being taken by somebody else before the group is killed.
func (p *process) wait() {
	waitUnreaped(p.cmd.Process.Pid)
	p.mu.Lock()
	killGroup(p.cmd.Process)
	p.reaped = true
	p.mu.Unlock()
	_ = p.cmd.Wait() // ProcessState tells all that the error does
}

// waitUnreaped returns when the process has ended and leaves it as a zombie.
func waitUnreaped(pid int) {
	const (
		idPid  = 1         // P_PID, waitid(2)
		noWait = 0x1000000 // WNOWAIT
	)
	var info [16]uint64 // siginfo_t: 128 bytes by the kernel's ABI
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idPid, uintptr(pid),
			uintptr(unsafe.Pointer(&info)), syscall.WEXITED|noWait, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}
