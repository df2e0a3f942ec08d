//go:build !unix

package bench

import "os"

// clientCPU is not known here.
func clientCPU() *int64 { return nil }

// isAlive reports whether there is a process with this number.
func isAlive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err == nil {
		_ = p.Release()
	}
	return err == nil
}
