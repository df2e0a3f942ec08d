// Package node holds the contenders that are written for Node.js. In Go it has only
// the test of the protocol that they share; it needs Node.js and none of their packages.
package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later/lab/contender"
)

// fake is testdata/fake.mjs with a database of its own.
type fake struct{ db, settings string }

func newFake(t *testing.T) fake {
	f := fake{db: filepath.Join(t.TempDir(), "jobs"), settings: "defaults"}
	f.call(t, "setup")
	return f
}

// command is killed when it takes half a minute, or when the test ends.
func (f fake) command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "node", append([]string{"testdata/fake.mjs"}, args...)...)
	cmd.Env = append(os.Environ(), "LAB_URL="+f.db, "LAB_SETTINGS="+f.settings, `LAB_PAYLOAD={"seq":0,"text":"some text"}`)
	return cmd
}

// call runs a verb and returns its only answer, which may be none.
func (f fake) call(t *testing.T, args ...string) (answer contender.Answer) {
	t.Helper()
	cmd := f.command(t, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, &stderr)
	}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Fatalf("%q answers %q: %v", args, out, err)
		}
	}
	return answer
}

// fails runs a verb that must fail, and returns what it says to people.
func (f fake) fails(t *testing.T, args ...string) string {
	t.Helper()
	out, err := f.command(t, args...).CombinedOutput()
	if err == nil {
		t.Fatalf("%q: got success, want a failure", args)
	}
	return string(out)
}

// lines reads a file of lines "seq unixMicros".
func lines(t *testing.T, file string) map[int64]time.Time {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := map[int64]time.Time{}
	for line := range strings.Lines(string(text)) {
		var seq, micros int64
		if _, err := fmt.Sscanf(line, "%d %d\n", &seq, &micros); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if _, twice := at[seq]; twice {
			t.Errorf("seq %d: got it twice, want once", seq)
		}
		at[seq] = time.UnixMicro(micros)
	}
	return at
}

// worker starts drain or work; stop closes its input and returns its answers.
func (f fake) worker(t *testing.T, args ...string) (stop func(done int64) []contender.Answer) {
	t.Helper()
	cmd := f.command(t, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	return func(done int64) (all []contender.Answer) {
		t.Helper()
		for answers.Scan() {
			var a contender.Answer
			if err := json.Unmarshal(answers.Bytes(), &a); err != nil {
				t.Fatalf("answer %q: %v", answers.Bytes(), err)
			}
			all = append(all, a)
			if a.Done != nil && *a.Done >= done {
				_ = in.Close()
			}
		}
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return all
	}
}

func TestDescribe(t *testing.T) {
	got := newFake(t).call(t, "describe")
	if got.Name != "fake" || got.Version != "1.2.3" || len(got.Settings) != 3 {
		t.Errorf("got %+v, want fake 1.2.3 with three settings", got)
	}
}

func TestEnqueue(t *testing.T) {
	f := newFake(t)
	if got := f.call(t, "enqueue", "2500"); got.Jobs == nil || *got.Jobs != 2500 || got.Seconds <= 0 {
		t.Errorf("got %+v, want 2500 jobs and their time", got)
	}
	if got := f.call(t, "remaining"); got.Remaining == nil || *got.Remaining != 2500 {
		t.Errorf("got %+v, want 2500 remaining", got)
	}
	text, err := os.ReadFile(f.db)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for line := range strings.Lines(string(text)) {
		var p contender.Payload
		if err := json.Unmarshal([]byte(line), &p); err != nil || p.Text != "some text" {
			t.Fatalf("got payload %q, %v, want the text that the driver gave", line, err)
		}
		seen[p.Seq] = true
	}
	if len(seen) != 2500 || !seen[1] || !seen[2500] {
		t.Errorf("got %d numbers, want 1 to 2500", len(seen))
	}
}

func TestDrain(t *testing.T) {
	f := newFake(t)
	f.call(t, "enqueue", "300")
	answers := f.worker(t, "drain")(300)
	if len(answers) < 3 || !answers[0].Ready {
		t.Fatalf("got %+v, want ready, progress and the end", answers)
	}
	var last int64
	for _, a := range answers[1:] {
		if a.Done == nil || *a.Done < last || a.At == 0 {
			t.Fatalf("got %+v after %d, want a count that only grows, with its time", a, last)
		}
		last = *a.Done
	}
	if last != 300 {
		t.Errorf("got %d done, want 300", last)
	}
	if got := f.call(t, "remaining"); got.Remaining == nil || *got.Remaining != 0 {
		t.Errorf("got %+v, want none remaining", got)
	}
}

func TestHandlersThatTakeTime(t *testing.T) {
	f := newFake(t)
	f.call(t, "enqueue", "5")
	t.Setenv("LAB_HANDLER", "200ms")
	started := filepath.Join(t.TempDir(), "started")
	for _, a := range f.worker(t, "work", started)(5) {
		if a.Done == nil || *a.Done == 0 {
			continue
		}
		for seq, at := range lines(t, started) {
			if took := time.UnixMicro(a.At).Sub(at); took < 99*time.Millisecond {
				t.Errorf("seq %d: got it done after %v, want 100ms at least", seq, took)
			}
		}
		return
	}
	t.Error("got no progress")
}

func TestWorkAndProduce(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	started, acked := filepath.Join(dir, "started"), filepath.Join(dir, "acked")
	before := time.Now()
	stop := f.worker(t, "work", started)
	produced := f.call(t, "produce", acked, "200", "1")
	// What a busy machine cannot begin in time is left out, so it may be fewer than 200.
	if produced.Jobs == nil || *produced.Jobs < 1 || *produced.Jobs > 200 || produced.Seconds < 0.9 {
		t.Fatalf("got %+v, want up to 200 jobs spread over a second", produced)
	}
	jobs := *produced.Jobs
	stop(jobs)
	after := time.Now()

	acks, starts := lines(t, acked), lines(t, started)
	if int64(len(acks)) != jobs || int64(len(starts)) != jobs {
		t.Errorf("got %d acknowledged and %d started, want %d of each", len(acks), len(starts), jobs)
	}
	for seq, at := range acks {
		// The clocks of two processes: a millisecond is more than they differ by.
		if at.Before(before.Add(-time.Millisecond)) || starts[seq].After(after.Add(time.Millisecond)) {
			t.Fatalf("seq %d: acknowledged %v, started %v, want both between %v and %v", seq, at, starts[seq], before, after)
		}
	}
}

func TestWorkForATenant(t *testing.T) {
	f := newFake(t)
	for tenant, jobs := range map[string]string{contender.Heavy: "40", contender.Light: "3"} {
		t.Setenv("LAB_TENANT", tenant)
		cmd := f.command(t, "enqueue", jobs)
		cmd.Env = append(cmd.Env, fmt.Sprintf(`LAB_PAYLOAD={"seq":0,"text":"some text","tenant":%q}`, tenant))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Setenv("LAB_TENANT", contender.Light)
	started := filepath.Join(t.TempDir(), "started")
	answers := f.worker(t, "work", started)(43)
	if got := lines(t, started); len(got) != 3 {
		t.Errorf("got %v, want the starts of the light tenant's 3 jobs", got)
	}
	if last := answers[len(answers)-1]; last.Done == nil || *last.Done != 43 {
		t.Errorf("got %+v last, want all 43 done", last)
	}
}

func TestProduceIsBounded(t *testing.T) {
	f := newFake(t)
	f.settings = "slow"
	acked := filepath.Join(t.TempDir(), "acked")
	got := f.call(t, "produce", acked, "1000", "1")
	// Each call takes a second: 64 begin, fewer on a busy machine, and by their end the
	// time is over.
	if got.Jobs == nil || *got.Jobs > 64 || int64(len(lines(t, acked))) != *got.Jobs {
		t.Errorf("got %+v and %d lines, want 64", got, len(lines(t, acked)))
	}
}

func TestTrickle(t *testing.T) {
	f := newFake(t)
	acked := filepath.Join(t.TempDir(), "acked")
	f.call(t, "trickle", acked, "20", "10")
	acks := lines(t, acked)
	if len(acks) != 10 {
		t.Fatalf("got %d lines, want 10", len(acks))
	}
	if got := acks[10].Sub(acks[1]); got < 150*time.Millisecond {
		t.Errorf("got ten jobs in %v, want them 20 ms apart", got)
	}
}

func TestSingles(t *testing.T) {
	f := newFake(t)
	got := f.call(t, "singles", "10", "1")
	left := f.call(t, "remaining")
	if got.Jobs == nil || left.Remaining == nil || *got.Jobs < 10 || *got.Jobs != *left.Remaining {
		t.Errorf("got %+v and then %+v, want as many jobs as it says", got, left)
	}
}

func TestFailures(t *testing.T) {
	f := newFake(t)
	file := filepath.Join(t.TempDir(), "file")
	t.Run("names the verbs", func(t *testing.T) {
		if got := f.fails(t, "dance"); !strings.Contains(got, "trickle") {
			t.Errorf("got %q, want the verbs that there are", got)
		}
	})
	t.Run("names the settings", func(t *testing.T) {
		f.settings = "fastest"
		if got := f.fails(t, "enqueue", "1"); !strings.Contains(got, "slow") {
			t.Errorf("got %q, want the settings that there are", got)
		}
	})
	t.Run("ends with a job that cannot be added", func(t *testing.T) {
		f.settings = "broken"
		for _, args := range [][]string{{"singles", "3", "1"}, {"produce", file, "10", "1"}, {"trickle", file, "10", "5"}} {
			if got := f.fails(t, args...); !strings.Contains(got, "no such table") {
				t.Errorf("%q: got %q, want the reason", args, got)
			}
		}
	})
	t.Run("refuses what is no number", func(t *testing.T) {
		f.settings = "defaults"
		for _, count := range []string{"many", "0", "-1"} {
			if got := f.fails(t, "enqueue", count); !strings.Contains(got, "number above 0") {
				t.Errorf("%s: got %q", count, got)
			}
		}
	})
}
