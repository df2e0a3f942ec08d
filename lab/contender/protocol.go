package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// Answer is one line that a contender prints; the fields that a verb does not have
// are left out.
type Answer struct {
	Name     string            `json:"name,omitempty"`
	Version  string            `json:"version,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`

	Jobs    *int64  `json:"jobs,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`

	Ready     bool   `json:"ready,omitempty"`
	Done      *int64 `json:"done,omitempty"`
	At        int64  `json:"at,omitempty"` // microseconds since 1970
	Remaining *int64 `json:"remaining,omitempty"`
}

// ErrUsage is the error of a verb that does not exist or whose arguments are wrong.
var ErrUsage = errors.New("verbs: describe, setup, enqueue N, singles CALLERS SECONDS, drain, work FILE, " +
	"produce FILE RATE SECONDS, trickle FILE EVERY_MS COUNT, remaining, fill WHAT N")

// Filler is a contender that can be brought quickly into a state in which many jobs
// wait: ready now, scheduled for next week, or ready and of many tenants.
type Filler interface {
	Fill(ctx context.Context, what string, n int64) error
}

// FromEnvironment reads what the driver has set.
func FromEnvironment() (Env, error) {
	env := Env{
		URL:       os.Getenv("LAB_URL"),
		Settings:  os.Getenv("LAB_SETTINGS"),
		Processes: 1,
		Dir:       os.Getenv("LAB_DIR"),
		Tenant:    os.Getenv("LAB_TENANT"),
	}
	if text := os.Getenv("LAB_PROCESSES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return env, fmt.Errorf("LAB_PROCESSES: %w", err)
		}
		env.Processes = n
	}
	if text := os.Getenv("LAB_PAYLOAD"); text != "" {
		var p Payload
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return env, fmt.Errorf("LAB_PAYLOAD: %w", err)
		}
		env.Payload = p.Text
	}
	return env, nil
}

// Process is one run of a contender's process: one verb.
type Process struct {
	Def *Definition
	Env Env
	In  io.Reader // its end stops drain and work
	Out io.Writer
	// Handler is how long a handler takes on average; 0 is a no-op. Each takes from half of it
	// to one and a half: with one length for all, those that begin together end together, and
	// the slots run in step.
	Handler time.Duration

	mu sync.Mutex // of Out
}

// Run does what the verb says.
func (p *Process) Run(ctx context.Context, verb string, args ...string) error {
	if verb == "describe" {
		return p.print(Answer{Name: p.Def.Name, Version: p.Def.Version, Settings: p.Def.Settings})
	}
	if p.Env.URL == "" {
		return errors.New("LAB_URL is not set")
	}
	if p.Def.Settings[p.Env.Settings] == "" {
		return fmt.Errorf("%s has no settings %q", p.Def.Name, p.Env.Settings)
	}
	c, err := p.Def.Open(ctx, p.Env)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.Def.Name, err)
	}
	defer c.Close()
	if err := p.verb(ctx, c, verb, args); err != nil {
		return fmt.Errorf("%s %s: %w", p.Def.Name, verb, err)
	}
	return nil
}

func (p *Process) verb(ctx context.Context, c Contender, verb string, args []string) error {
	switch {
	case verb == "setup" && len(args) == 0:
		return c.Setup(ctx)
	case verb == "enqueue" && len(args) == 1:
		return p.enqueue(ctx, c, args[0])
	case verb == "singles" && len(args) == 2:
		return p.singles(ctx, c, args[0], args[1])
	case verb == "drain" && len(args) == 0:
		return p.drain(ctx, c, nil)
	case verb == "work" && len(args) == 1:
		lines, err := createLines(args[0])
		if err != nil {
			return err
		}
		return errors.Join(p.drain(ctx, c, lines), lines.close())
	case verb == "produce" && len(args) == 3:
		return p.produce(ctx, c, args[0], args[1], args[2])
	case verb == "trickle" && len(args) == 3:
		return p.trickle(ctx, c, args[0], args[1], args[2])
	case verb == "remaining" && len(args) == 0:
		n, err := c.Remaining(ctx)
		if err != nil {
			return err
		}
		return p.print(Answer{Remaining: &n})
	case verb == "fill" && len(args) == 2:
		return p.fill(ctx, c, args[0], args[1])
	}
	return fmt.Errorf("%q %q: %w", verb, args, ErrUsage)
}

func (p *Process) enqueue(ctx context.Context, c Contender, count string) error {
	n, err := number("N", count)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := c.Enqueue(ctx, 1, n); err != nil {
		return err
	}
	return p.print(Answer{Jobs: &n, Seconds: time.Since(start).Seconds()})
}

func (p *Process) fill(ctx context.Context, c Contender, what, count string) error {
	n, err := number("N", count)
	if err != nil {
		return err
	}
	f, ok := c.(Filler)
	if !ok {
		return errors.New("it cannot be filled")
	}
	start := time.Now()
	if err := f.Fill(ctx, what, n); err != nil {
		return err
	}
	return p.print(Answer{Jobs: &n, Seconds: time.Since(start).Seconds()})
}

// print prints one line.
func (p *Process) print(a Answer) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.Out.Write(append(line, '\n'))
	return err
}

func number(name, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s %q is not a number above 0", name, text)
	}
	return n, nil
}
