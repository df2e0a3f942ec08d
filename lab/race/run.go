package race

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/later-queue/later/lab/contender"
	"github.com/later-queue/later/lab/course"
	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/drive"
	"github.com/later-queue/later/lab/registry"
	"github.com/later-queue/later/lab/server"
)

// Options say how races are run. The zero value is the full size of all lanes.
type Options struct {
	Quick   bool
	Rounds  int   // 0: as many as the race says
	Jobs    int64 // 0: as many as the race says; the lanes' numbers go with it
	Seconds int   // 0: as long as the race says
	// Only are names of contenders; none is all of them.
	Only []string
	// Lane is a part of the names of lanes, as they are printed; "" is in all of them.
	Lane string
	// Out is the folder for the results.
	Out string
	// Root is the folder of the module lab.
	Root string
	// Progress gets a line for each round.
	Progress io.Writer
}

// Meeting is several races after each other, on servers that are started when they are
// first needed. It must be closed.
type Meeting struct {
	options Options
	program string // this program, which is also the contenders in Go
	servers map[string]server.Server
	known   map[string]data.Contender
}

// NewMeeting returns a meeting; nothing runs yet.
func NewMeeting(o Options) (*Meeting, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &Meeting{options: o, program: program, servers: map[string]server.Server{}, known: map[string]data.Contender{}}, nil
}

// Close stops the servers.
func (m *Meeting) Close() error {
	var all error
	for _, s := range m.servers {
		all = errors.Join(all, s.Close())
	}
	m.servers = map[string]server.Server{}
	return all
}

// Run runs one race and stores its results, those of a race that was interrupted too.
// A round that fails is in the results with its error, and Run goes on.
func (m *Meeting) Run(ctx context.Context, race Race) error {
	race = m.entered(race.sized(m.options))
	if len(race.Lanes) == 0 {
		m.say("%s: none of its lanes was asked for", race.Name)
		return nil
	}
	m.say("%s: %s", race.Name, race.About)
	m.say("%s: %d lanes, %d rounds, %v at most", race.Name, len(race.Lanes), race.Rounds, race.atMost())
	result := &data.Race{
		Race: race.Name, About: race.About, Machine: machine(), When: time.Now().UTC(),
		Commit: commit(m.options.Root), Quick: m.options.Quick || m.options.Jobs > 0 || m.options.Seconds > 0,
		Command: "go run . " + strings.Join(os.Args[1:], " "),
		Servers: map[string]map[string]string{}, Contenders: map[string]data.Contender{},
	}
	start := time.Now()
	for round := 1; round <= race.Rounds; round++ {
		lanes := slices.Clone(race.Lanes)
		rand.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
		for _, lane := range lanes {
			r, err := m.round(ctx, race, lane, round, result)
			if ctx.Err() != nil {
				return m.finish(result, start, context.Cause(ctx))
			}
			if err != nil {
				r.Error = err.Error()
			}
			result.Rounds = append(result.Rounds, r)
			m.say("%s %d/%d  %s", race.Name, round, race.Rounds, describe(lane, r))
		}
	}
	return m.finish(result, start, nil)
}

// finish stores what there is.
func (m *Meeting) finish(result *data.Race, start time.Time, err error) error {
	result.Took = time.Since(start).Seconds()
	if len(result.Rounds) == 0 {
		return err
	}
	return errors.Join(err, data.Write(m.options.Out, result), Summarize(m.options.Progress, result))
}

// entered returns the race with the lanes that were asked for.
func (m *Meeting) entered(race Race) Race {
	race.Lanes = slices.DeleteFunc(slices.Clone(race.Lanes), func(l Lane) bool {
		wanted := len(m.options.Only) == 0 || slices.Contains(m.options.Only, l.Contender)
		return !wanted || !strings.Contains(l.String(), m.options.Lane)
	})
	return race
}

// round runs one lane once.
func (m *Meeting) round(ctx context.Context, race Race, lane Lane, number int, result *data.Race) (r data.Round, err error) {
	r = data.Round{
		Contender: lane.Contender, Settings: lane.Settings, Processes: max(lane.Processes, 1),
		Condition: lane.Condition, Round: number, Note: lane.Note,
	}
	ctx, cancel := context.WithTimeoutCause(ctx, race.bound(lane), fmt.Errorf("the round took longer than %v", race.bound(lane)))
	defer cancel()
	entry, err := registry.Find(lane.Contender)
	if err != nil {
		return r, err
	}
	if r.Server, err = serverOf(entry, lane); err != nil {
		return r, err
	}
	s, err := m.server(ctx, r.Server)
	if err != nil {
		return r, err
	}
	result.Servers[r.Server] = s.Settings()
	messages := &tail{}
	launcher := m.launcher(entry, messages)
	if result.Contenders[lane.Contender], err = m.describe(ctx, entry.Name, launcher); err != nil {
		return r, messages.with(err)
	}
	dir, err := os.MkdirTemp("", "later-lab-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name := strings.ReplaceAll(fmt.Sprintf("lab_%s_%s_%d", lane.Contender, lane.Settings, number), "-", "_")
	url, err := s.Fresh(ctx, name)
	if err != nil {
		return r, err
	}
	defer func() {
		dropCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, s.Drop(dropCtx, url))
	}()
	launcher.Handler = lane.Handler
	launcher.Env = contender.Env{URL: url, Settings: lane.Settings, Processes: max(lane.Processes, 1), Dir: dir}
	track := &course.Track{
		Server: s, Launcher: launcher,
		Jobs: race.Jobs, Seconds: race.Seconds, Rate: race.Rate, Callers: race.Callers, Limit: race.limit(lane),
		Warm: lane.Warm, Hold: lane.Hold, Soak: lane.Soak, Fill: lane.Fill, FillJobs: lane.FillJobs, Lead: race.Lead,
	}
	if lane.Jobs > 0 {
		track.Jobs = lane.Jobs
	}
	run := race.Course
	if lane.Course != nil {
		run = lane.Course
	}
	return r, messages.with(run(ctx, track, &r))
}

// serverOf is the name of the server that the lane runs on.
func serverOf(entry registry.Entry, lane Lane) (string, error) {
	switch {
	case lane.Server != "":
		return lane.Server, nil
	case entry.Database == registry.Redis:
		return "", fmt.Errorf("the lane %s does not say on which Redis", lane)
	}
	return string(entry.Database), nil
}

// server returns the server with this name, started.
func (m *Meeting) server(ctx context.Context, name string) (server.Server, error) {
	if s := m.servers[name]; s != nil {
		return s, nil
	}
	// It outlives the round that needed it first.
	s, err := server.Start(context.WithoutCancel(ctx), name)
	if err != nil {
		return nil, err
	}
	m.servers[name] = s
	m.say("server %s: %v", name, s.Settings())
	return s, nil
}

func (m *Meeting) launcher(entry registry.Entry, messages io.Writer) *drive.Launcher {
	program := entry.Program
	if entry.Go != nil {
		program = []string{m.program, "contender", entry.Name}
	}
	return &drive.Launcher{Program: program, Folder: m.options.Root, Messages: messages}
}

// describe asks a contender what it is, once.
func (m *Meeting) describe(ctx context.Context, name string, l *drive.Launcher) (data.Contender, error) {
	if known, ok := m.known[name]; ok {
		return known, nil
	}
	answer, err := l.Call(ctx, "describe")
	if err != nil {
		return data.Contender{}, err
	}
	m.known[name] = data.Contender{Name: answer.Name, Version: answer.Version, Settings: answer.Settings}
	return m.known[name], nil
}

func (m *Meeting) say(format string, args ...any) {
	// Nobody to tell is no reason to stop.
	_, _ = fmt.Fprintf(m.options.Progress, format+"\n", args...)
}

// commit is that of the repository around dir.
func commit(dir string) string {
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", filepath.Clean(dir)}, args...)...).Output()
		if err != nil {
			return "" // not in a repository: then there is no commit to name
		}
		return strings.TrimSpace(string(out))
	}
	hash := git("rev-parse", "--short=12", "HEAD")
	if hash != "" && git("status", "--porcelain", "--untracked-files=no") != "" {
		hash += "+"
	}
	return hash
}
