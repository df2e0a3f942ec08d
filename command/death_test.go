//go:build linux || freebsd

package command_test

import (
	"os"
	"os/exec"
	"testing"
)

func TestDeathOfTheWorker(t *testing.T) {
	t.Run("a command is killed when its worker is killed", func(t *testing.T) {
		l := newLifeline(t)
		worker := exec.Command(os.Args[0], `trap '' TERM HUP INT; exec 3>`+l.path+`; echo ready >&3; exec sleep 300`)
		worker.Env = append(os.Environ(), "COMMAND_TEST_PART=worker")
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		l.await(t, "ready")
		if err := worker.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = worker.Wait() // killed
		l.awaitDeath(t)
	})
}
