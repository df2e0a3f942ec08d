//go:build unix

package bench

import "golang.org/x/sys/unix"

// clientCPU is the CPU time of this process in microseconds.
func clientCPU() *int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return nil
	}
	return new((u.Utime.Nano() + u.Stime.Nano()) / 1000)
}

// isAlive reports whether there is a process with this number.
func isAlive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || err == unix.EPERM
}
