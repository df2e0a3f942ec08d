package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
)

// A child process of a test is the test binary, which works instead of testing.
const (
	childFile  = "LATER_TEST_SQLITE_FILE"  // on which it works
	childLease = "LATER_TEST_SQLITE_LEASE" // how long it leases jobs
	childDies  = "LATER_TEST_SQLITE_DIES"  // how many jobs it does before it kills itself; 0: it does not
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		lease, err1 := time.ParseDuration(os.Getenv(childLease))
		dies, err2 := strconv.Atoi(os.Getenv(childDies))
		if err := errors.Join(err1, err2, workOn(path, lease, dies)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// workOn is a child process: it claims and settles until no job is left, with an
// effect for each job in a table of the same file. It says how far it is on
// standard output.
func workOn(path string, lease time.Duration, dies int) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	defer s.Close()
	name := fmt.Sprintf("process-%d", os.Getpid())
	for done := 0; ; {
		claimed, err := s.Claim(ctx, later.ClaimRequest{
			Queues: []later.QueueLimit{{Queue: later.DefaultQueue, Limit: 20}}, Limit: 20, Kinds: []string{"work"},
			Worker: name, Token: later.NewToken(), Lease: lease,
		})
		if err != nil {
			return err
		}
		if len(claimed) == 0 {
			claimed, err = s.Sweep(ctx, later.SweepRequest{
				Limit: 20, Suspect: true, Queues: []string{later.DefaultQueue}, Kinds: []string{"work"},
				Worker: name, Token: later.NewToken(), Lease: lease,
			})
			if err != nil {
				return err
			}
		}
		if len(claimed) == 0 {
			var left int
			if err := s.DB().QueryRow(`select count(*) from later_job`).Scan(&left); err != nil || left == 0 {
				return err
			}
			<-time.After(10 * time.Millisecond) // the leases of the killed have to end
			continue
		}
		for _, c := range claimed {
			done++
			if err := finish(ctx, s, c, done == dies); err != nil {
				return err
			}
			fmt.Println(done)
		}
	}
}

// finish does a job. Those with an even id end in one transaction with their
// effect; the others are settled first. With dies the process dies in the middle.
func finish(ctx context.Context, s *sqlite.Store, c *later.Claimed, dies bool) error {
	if c.Doom != later.DoomNone {
		return fmt.Errorf("job %d is doomed: %s", c.ID, c.Doom)
	}
	const insertEffect = `insert into effect (job) values (?)`
	if c.ID%2 == 1 {
		if dies {
			return die()
		}
		refused, err := s.Settle(ctx, []later.Settlement{{Lease: c.Lease, Outcome: later.OutcomeDone}})
		if err == nil && len(refused) == 0 {
			_, err = s.DB().Exec(insertEffect, c.ID)
		}
		return err
	}
	tx, err := s.DB().Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(insertEffect, c.ID); err != nil {
		return err
	}
	err = s.DoneSQLTx(ctx, tx, c)
	if errors.Is(err, later.ErrLeaseLost) {
		return nil // the effect is taken back, and somebody else does the job
	}
	if err != nil {
		return err
	}
	if dies {
		return die()
	}
	return tx.Commit()
}

// die is a SIGKILL from within.
func die() error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return err
	}
	select {}
}

// child is a process that works on a file.
type child struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr strings.Builder
}

func startChild(t *testing.T, path string, lease time.Duration, dies int) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childFile+"="+path, childLease+"="+lease.String(), childDies+"="+strconv.Itoa(dies))
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill() })
	return c
}

// wait reads what the child says until it ends, and returns how many jobs it did.
func (c *child) wait(t *testing.T) (done int) {
	t.Helper()
	for c.lines.Scan() {
		done++
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("child: %v: %s", err, c.stderr.String())
	}
	return done
}

// kill lets the child do some jobs, and then ends it with SIGKILL.
func (c *child) kill(t *testing.T, after int) {
	t.Helper()
	for range after {
		if !c.lines.Scan() {
			break
		}
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Log(err) // it has ended by itself
	}
	c.cmd.Wait()
}

func fileWithJobs(t *testing.T, n int) (s *sqlite.Store, path string) {
	t.Helper()
	path = tempFile(t)
	s = openStore(t, path, sqlite.Config{})
	mustExec(t, s.DB(), `create table effect (job integer not null)`)
	requests := make([]later.Request, n)
	for i := range requests {
		requests[i] = later.Request{Args: work}
	}
	if _, err := s.EnqueueMany(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	return s, path
}

// Case 118, and several processes on one file: no two get one job.
func TestProcesses(t *testing.T) {
	const jobs = 2000
	s, path := fileWithJobs(t, jobs)
	var wg sync.WaitGroup
	for range 3 {
		c := startChild(t, path, time.Hour, 0)
		wg.Go(func() {
			if done := c.wait(t); done == 0 {
				t.Error("a process did nothing")
			}
		})
	}
	wg.Wait()
	for query, want := range map[string]int{
		`select count(*) from later_job`: 0, `select count(*) from effect`: jobs, `select count(distinct job) from effect`: jobs,
		`select count(*) from later_job_log where outcome = 'done' and attempt = 1`: jobs,
		`select count(*) from later_job_log`:                                        jobs,
	} {
		if got := one[int](t, s.DB(), query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

// A process that is killed in the middle loses nothing: its jobs are done by
// others, the effects that it settled in one transaction exist once, and the
// file is sound.
func TestKill(t *testing.T) {
	const jobs = 1000
	s, path := fileWithJobs(t, jobs)
	// Four die in the middle of a job, with others leased; then four are killed
	// wherever they are, beside one that goes on.
	var wg sync.WaitGroup
	for i := range 4 {
		c := startChild(t, path, time.Second, 7+i)
		wg.Go(func() { c.kill(t, jobs) })
	}
	wg.Wait()
	survivor := startChild(t, path, time.Second, 0)
	for i := range 4 {
		startChild(t, path, time.Second, 0).kill(t, 20+13*i)
	}
	survivor.wait(t)
	for query, want := range map[string]int{
		`select count(*) from later_job`:                                      0,
		`select count(*) from later_dead_job`:                                 0,
		`select count(*) from later_job_log where outcome = 'done'`:           jobs,
		`select count(distinct job_id) from later_job_log`:                    jobs,
		`select count(*) from effect where job % 2 = 0`:                       jobs / 2,
		`select count(distinct job) from effect where job % 2 = 0`:            jobs / 2,
		`select count(*) - count(distinct job) from effect where job % 2 = 1`: 0,
	} {
		if got := one[int](t, s.DB(), query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	if got := one[string](t, s.DB(), `pragma integrity_check`); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
	if lost := one[int](t, s.DB(), `select count(*) from later_job_log where outcome = 'lost'`); lost < 4 {
		t.Errorf("%d attempts were lost, want at least those in which the four died", lost)
	}
}
