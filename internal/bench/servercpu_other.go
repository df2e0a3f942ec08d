//go:build !linux

package bench

// postmasterOf knows no processes here.
func postmasterOf(int, string) int { return 0 }

func serverCPU(int) *int64 { return nil }
