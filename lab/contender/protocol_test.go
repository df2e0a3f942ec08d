package contender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a contender in memory.
type fake struct {
	mu     sync.Mutex
	jobs   []int64
	setups int
	closed bool
	oneErr error // of every EnqueueOne but the first
	text   string
	light  int64 // the number of the light tenant's job
}

func (f *fake) Setup(context.Context) error { f.setups++; return nil }

func (f *fake) Enqueue(_ context.Context, from, n int64) error {
	for seq := from; seq < from+n; seq++ {
		f.jobs = append(f.jobs, seq)
	}
	return nil
}

func (f *fake) EnqueueOne(_ context.Context, seq int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.oneErr != nil && len(f.jobs) > 0 {
		return f.oneErr
	}
	f.jobs = append(f.jobs, seq)
	return nil
}

// Work handles everything, then waits for the end, and handles one more after it: a job
// that ends while the worker stops.
func (f *fake) Work(ctx context.Context, ready func(), handle func(Payload)) error {
	ready()
	for _, seq := range f.jobs {
		job := Payload{Seq: seq, Tenant: Heavy}
		if seq == f.light {
			job.Tenant = Light
		}
		handle(job)
	}
	<-ctx.Done()
	handle(Payload{Seq: 1_000_000})
	return nil
}

func (f *fake) Remaining(context.Context) (int64, error) { return int64(len(f.jobs)), nil }
func (f *fake) Close()                                   { f.closed = true }

// process returns a process of f with the standard input in.
func process(f *fake, in io.Reader) (*Process, *bytes.Buffer) {
	out := new(bytes.Buffer)
	def := &Definition{Name: "fake", Version: "1", Settings: map[string]string{"defaults": "as it comes"},
		Open: func(_ context.Context, env Env) (Contender, error) {
			f.text = env.Payload
			return f, nil
		}}
	return &Process{Def: def, Env: Env{URL: "fake://", Settings: "defaults"}, In: in, Out: out}, out
}

// answers are the lines of an output.
func answers(t *testing.T, out *bytes.Buffer) []Answer {
	t.Helper()
	var all []Answer
	for line := range strings.Lines(out.String()) {
		var a Answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, a)
	}
	return all
}

func TestProcess(t *testing.T) {
	ctx := context.Background()
	t.Run("describe needs no database", func(t *testing.T) {
		p, out := process(&fake{}, nil)
		p.Env = Env{}
		if err := p.Run(ctx, "describe"); err != nil {
			t.Fatal(err)
		}
		if got := answers(t, out); len(got) != 1 || got[0].Name != "fake" || got[0].Settings["defaults"] != "as it comes" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("setup, enqueue and remaining answer once, and close", func(t *testing.T) {
		f := &fake{}
		p, out := process(f, nil)
		for _, call := range [][]string{{"setup"}, {"enqueue", "12"}, {"remaining"}} {
			f.closed = false
			if err := p.Run(ctx, call[0], call[1:]...); err != nil {
				t.Fatal(err)
			}
			if !f.closed {
				t.Errorf("%v: it was not closed", call)
			}
		}
		got := answers(t, out)
		if len(got) != 2 || *got[0].Jobs != 12 || got[0].Seconds <= 0 || *got[1].Remaining != 12 {
			t.Errorf("got %s", out)
		}
		if f.setups != 1 || f.jobs[0] != 1 || f.jobs[11] != 12 {
			t.Errorf("got %d setups and the jobs %v, want 1 and 1…12", f.setups, f.jobs)
		}
	})
	t.Run("unknown settings, verbs and numbers are refused", func(t *testing.T) {
		for _, call := range [][]string{{"dance"}, {"enqueue"}, {"enqueue", "0"}, {"enqueue", "x"}, {"fill", "ready", "5"}} {
			p, _ := process(&fake{}, nil)
			if err := p.Run(ctx, call[0], call[1:]...); err == nil {
				t.Errorf("%v: got no error", call)
			}
		}
		p, _ := process(&fake{}, nil)
		p.Env.Settings = "other"
		if err := p.Run(ctx, "setup"); err == nil {
			t.Error("got no error for settings that it does not have")
		}
	})
}

func TestDrain(t *testing.T) {
	t.Run("says when it is ready, and counts what ends while it stops", func(t *testing.T) {
		p, out := process(&fake{jobs: []int64{1, 2, 3}}, strings.NewReader(""))
		if err := p.Run(context.Background(), "drain"); err != nil {
			t.Fatal(err)
		}
		got := answers(t, out)
		if !got[0].Ready {
			t.Errorf("got %+v first, want ready", got[0])
		}
		last := got[len(got)-1]
		if last.Done == nil || *last.Done != 4 || time.Since(time.UnixMicro(last.At)) > time.Minute {
			t.Errorf("got %+v last, want 4 done, now", last)
		}
	})
	t.Run("reports while it works", func(t *testing.T) {
		in, stop := io.Pipe()
		p, _ := process(&fake{jobs: []int64{1, 2, 3}}, in)
		read, write := io.Pipe()
		p.Out = write
		ended := make(chan error, 1)
		go func() { ended <- p.Run(context.Background(), "drain"); write.Close() }()
		lines := json.NewDecoder(read)
		for {
			var a Answer
			if err := lines.Decode(&a); err != nil {
				t.Fatal(err)
			}
			if a.Done != nil {
				if *a.Done != 3 {
					t.Errorf("got %d done, want 3 before the end", *a.Done)
				}
				break
			}
		}
		stop.Close()
		go func() { _, _ = io.Copy(io.Discard, read) }()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
	t.Run("handlers take from half of their time to one and a half", func(t *testing.T) {
		p, out := process(&fake{jobs: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}}, strings.NewReader(""))
		p.Handler = 20 * time.Millisecond
		file := filepath.Join(t.TempDir(), "started")
		if err := p.Run(context.Background(), "work", file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var starts []int64
		for line := range strings.Lines(string(text)) {
			var seq, at int64
			if _, err := fmt.Sscan(line, &seq, &at); err != nil {
				t.Fatal(err)
			}
			starts = append(starts, at)
		}
		for i := range len(starts) - 1 {
			if took := starts[i+1] - starts[i]; took < 10_000 {
				t.Errorf("a handler took %d µs, want 10 ms at least", took)
			}
		}
		if len(starts) != 10 {
			t.Errorf("got %s, want ten starts", out)
		}
	})
	t.Run("work notes the start of each handler", func(t *testing.T) {
		p, _ := process(&fake{jobs: []int64{7, 8}}, strings.NewReader(""))
		file := filepath.Join(t.TempDir(), "started")
		if err := p.Run(context.Background(), "work", file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "7 ") || !strings.HasPrefix(lines[1], "8 ") {
			t.Errorf("got %q", lines)
		}
	})
}

func TestTenant(t *testing.T) {
	t.Run("work notes the tenant's jobs alone, and counts all", func(t *testing.T) {
		p, out := process(&fake{jobs: []int64{7, 8, 9}, light: 8}, strings.NewReader(""))
		p.Env.Tenant = Light
		file := filepath.Join(t.TempDir(), "started")
		if err := p.Run(context.Background(), "work", file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text); !strings.HasPrefix(got, "8 ") || strings.Count(got, "\n") != 1 {
			t.Errorf("got %q, want job 8 alone", got)
		}
		all := answers(t, out)
		if last := all[len(all)-1]; last.Done == nil || *last.Done != 4 {
			t.Errorf("got %+v last, want all 4 done", last)
		}
	})
	t.Run("a job tells whose it is, and without a tenant says nothing of it", func(t *testing.T) {
		t.Setenv("LAB_TENANT", Heavy)
		t.Setenv("LAB_PAYLOAD", `{"seq":0,"text":"some text"}`)
		env, err := FromEnvironment()
		if err != nil {
			t.Fatal(err)
		}
		expect := func(want string) {
			t.Helper()
			if got, err := json.Marshal(env.Job(5)); err != nil || string(got) != want {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		}
		expect(`{"seq":5,"text":"some text","tenant":"heavy"}`)
		env.Tenant = ""
		expect(`{"seq":5,"text":"some text"}`)
	})
}

func TestEnqueueOneByOne(t *testing.T) {
	ctx := context.Background()
	t.Run("singles counts what was answered within the time", func(t *testing.T) {
		f := &fake{}
		p, out := process(f, nil)
		if err := p.Run(ctx, "singles", "4", "1"); err != nil {
			t.Fatal(err)
		}
		got := answers(t, out)
		// One more was enqueued before the clock started.
		if len(got) != 1 || *got[0].Jobs != int64(len(f.jobs)-1) || got[0].Seconds < 1 {
			t.Errorf("got %s, and %d jobs", out, len(f.jobs))
		}
	})
	t.Run("produce keeps to the rate and notes each answer", func(t *testing.T) {
		p, out := process(&fake{}, nil)
		file := filepath.Join(t.TempDir(), "acked")
		start := time.Now()
		if err := p.Run(ctx, "produce", file, "50", "1"); err != nil {
			t.Fatal(err)
		}
		// The last of 50 is due after 980 ms.
		if took := time.Since(start); took < 980*time.Millisecond {
			t.Errorf("it took %v, want about a second", took)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := int64(bytes.Count(text, []byte("\n")))
		if got := answers(t, out); len(got) != 1 || *got[0].Jobs != lines || lines == 0 || lines > 50 {
			t.Errorf("got %s and %d lines, want as many of each, at most 50", out, lines)
		}
	})
	t.Run("trickle waits between the jobs", func(t *testing.T) {
		p, out := process(&fake{}, nil)
		file := filepath.Join(t.TempDir(), "acked")
		start := time.Now()
		if err := p.Run(ctx, "trickle", file, "20", "4"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 60*time.Millisecond {
			t.Errorf("it took %v, want at least 60 ms", took)
		}
		if got := answers(t, out); len(got) != 1 || *got[0].Jobs != 4 {
			t.Errorf("got %s, want 4 jobs", out)
		}
	})
	t.Run("an error ends them", func(t *testing.T) {
		broken := errors.New("broken")
		for _, call := range [][]string{{"singles", "2", "1"}, {"produce", "FILE", "10", "1"}, {"trickle", "FILE", "1", "2"}} {
			p, _ := process(&fake{oneErr: broken}, nil)
			if call[1] == "FILE" {
				call[1] = filepath.Join(t.TempDir(), "acked")
			}
			if err := p.Run(ctx, call[0], call[1:]...); !errors.Is(err, broken) {
				t.Errorf("%s: got %v, want %v", call[0], err, broken)
			}
		}
	})
}
