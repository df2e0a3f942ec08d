package pgserver_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later/internal/pgserver"
)

// starterEnv makes the test's program start a server, print where, and wait.
const starterEnv = "LATER_TEST_PGSERVER_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterEnv) == "" {
		os.Exit(m.Run())
	}
	server, err := pgserver.Start(context.Background(), pgserver.Config{})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(server.Dir() + " " + server.URL() + "\n")
	select {}
}

func TestServerDiesWithItsStarter(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), starterEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir, dsn, _ := strings.Cut(strings.TrimSpace(line), " ")
	t.Cleanup(func() { os.RemoveAll(dir) })
	query(t, dsn, "select 'alive'")

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	deadline := time.After(20 * time.Second)
	for {
		conn, err := net.Dial("tcp", address(t, dsn))
		if err != nil {
			return // nobody listens any more
		}
		conn.Close()
		select {
		case <-deadline:
			t.Fatal("the server outlives the process that started it")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
