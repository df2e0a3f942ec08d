//go:build !linux

package bench

// freeBytes is not known here.
func freeBytes(string) (n int64, ok bool) { return 0, false }

func written() *int64 { return nil }

func machineCPU() (used *int64, cpus int) { return nil, 0 }
