package bench

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/later-queue/later/internal/testdb"
)

func TestServerCPU(t *testing.T) {
	ctx := context.Background()
	conn := connection(t, testdb.Own(t, nil).URL())
	backend := value[int](t, conn, "select pg_backend_pid()")
	postmaster := postmasterOf(backend, "postgres")
	if postmaster == 0 {
		t.Fatal("the server's processes are not seen")
	}
	now := func() int64 {
		t.Helper()
		n := serverCPU(postmaster)
		if n == nil {
			t.Fatal("got nothing")
		}
		return *n
	}
	begin := now()
	// 0.2 s: more than what a server uses by itself meanwhile.
	const much = 200_000
	for deadline := time.Now().Add(time.Minute); now()-begin < much; {
		if time.Now().After(deadline) {
			t.Fatalf("got %d µs of a server that has been busy for a minute", now()-begin)
		}
		value[int](t, conn, "select count(*) from generate_series(1, 500000)")
	}
	t.Run("keeps that of processes that have ended", func(t *testing.T) {
		before := now()
		if err := conn.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
			if _, there := readStat(strconv.Itoa(backend)); !there {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if after := now(); after < before {
			t.Errorf("got %d, before %d", after, before)
		}
	})
	t.Run("takes nothing else for a server", func(t *testing.T) {
		for pid, database := range map[int]string{os.Getpid(): "postgres", postmaster: "postgres", 99_999_999: "postgres"} {
			if got := postmasterOf(pid, database); got != 0 {
				t.Errorf("%d: got %d, want 0", pid, got)
			}
		}
		if n := serverCPU(0); n != nil {
			t.Errorf("got %d of a server that is not seen", *n)
		}
	})
}
