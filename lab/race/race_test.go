package race

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/registry"
	"github.com/later-queue/later/lab/server"
)

func TestRaces(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All {
		if seen[r.Name] || r.Name == "" {
			t.Errorf("there are two races %q", r.Name)
		}
		seen[r.Name] = true
		t.Run(r.Name, func(t *testing.T) { checkRace(t, r.sized(Options{})) })
	}
}

func TestFind(t *testing.T) {
	for _, r := range All {
		if got, err := Find(r.Name); err != nil || got.Name != r.Name {
			t.Errorf("got %q, %v, want %q", got.Name, err, r.Name)
		}
	}
	for name, want := range map[string]string{
		"drian":  `no race is called "drian" (did you mean "drain"?); there are drain, sqlite, `,
		"zzzzzz": `no race is called "zzzzzz"; there are drain, `,
	} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}

// checkRace finds what would only show when the race is run.
func checkRace(t *testing.T, r Race) {
	if r.About == "" || r.Course == nil || r.Rounds < 1 || r.Jobs == 0 && r.Seconds == 0 {
		t.Errorf("got %+v, want it to say what it is, how it is run, how often and how big", r)
	}
	lanes := map[string]bool{}
	for _, l := range r.Lanes {
		if lanes[l.String()] {
			t.Errorf("two lanes are %q", l)
		}
		lanes[l.String()] = true
		entry, err := registry.Find(l.Contender)
		if err != nil {
			t.Errorf("lane %s: %v", l, err)
			continue
		}
		if entry.Go != nil && entry.Go.Settings[l.Settings] == "" {
			t.Errorf("lane %s: %s does not have these settings", l, l.Contender)
		}
		if l.Soak > 0 && l.Fill == "" {
			t.Errorf("lane %s: it has nothing to soak in", l)
		}
		name, err := serverOf(entry, l)
		if err != nil || !slices.Contains(server.Names(), name) {
			t.Errorf("lane %s: server %q, %v; there are %v", l, name, err, server.Names())
		}
	}
}

func TestServerOf(t *testing.T) {
	redis := registry.Entry{Name: "x", Database: registry.Redis}
	if got, err := serverOf(redis, Lane{Contender: "x"}); err == nil {
		t.Errorf("got %q for a lane that does not say on which Redis, want an error", got)
	}
	if got, err := serverOf(redis, Lane{Contender: "x", Server: "redis-always"}); err != nil || got != "redis-always" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := serverOf(registry.Entry{Database: registry.Postgres}, Lane{}); err != nil || got != "postgres" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSized(t *testing.T) {
	r := Race{
		Jobs: 1000, Rounds: 5, Seconds: 30, QuickSeconds: 3, Quick: 10,
		Lanes: []Lane{
			{Contender: "a"},
			{Contender: "b", Jobs: 200, Warm: 500, FillJobs: 4000},
			{Contender: "c", Jobs: 30, Whole: true},
			{Contender: "d", Jobs: 50, Backlog: true},
			{Contender: "d", Jobs: 500, Backlog: true},
		},
	}
	t.Run("as it says", func(t *testing.T) {
		got := r.sized(Options{})
		if got.Jobs != 1000 || got.Rounds != 5 || got.Seconds != 30 || got.Lanes[1].FillJobs != 4000 {
			t.Errorf("got %+v", got)
		}
		if got, want := got.Lanes[4].Condition, "500 ready"; got != want {
			t.Errorf("got the condition %q, want %q", got, want)
		}
	})
	t.Run("quick", func(t *testing.T) {
		got := r.sized(Options{Quick: true})
		if got.Jobs != 100 || got.Rounds != 1 || got.Seconds != 3 {
			t.Errorf("got %+v", got)
		}
		if b := got.Lanes[1]; b.Jobs != 20 || b.Warm != 50 || b.FillJobs != 400 {
			t.Errorf("got %+v, want a tenth", b)
		}
		if c := got.Lanes[2]; c.Jobs != 30 {
			t.Errorf("got %+v, want it whole", c)
		}
		if r.Lanes[1].Jobs != 200 {
			t.Error("the race itself has changed")
		}
	})
	t.Run("a number of jobs takes the lanes along, and never to none", func(t *testing.T) {
		got := r.sized(Options{Jobs: 10, Rounds: 2, Seconds: 7})
		if got.Jobs != 10 || got.Rounds != 2 || got.Seconds != 7 || got.Lanes[1].Jobs != 2 {
			t.Errorf("got %+v", got)
		}
		if got := r.sized(Options{Jobs: 1}).Lanes[1].Jobs; got != 1 {
			t.Errorf("got %d jobs, want 1", got)
		}
	})
	t.Run("lanes that become the same are run once", func(t *testing.T) {
		r := r
		r.Lanes = []Lane{{Contender: "d", Jobs: 1, Backlog: true}, {Contender: "d", Jobs: 2, Backlog: true}}
		if got := len(r.sized(Options{Jobs: 1}).Lanes); got != 1 {
			t.Errorf("got %d lanes, want 1", got)
		}
	})
}

func TestSoak(t *testing.T) {
	r := Race{Lanes: []Lane{{Contender: "a"}, {Contender: "b", Soak: 10 * time.Minute}}, Overhead: time.Second}
	for _, c := range []struct {
		options Options
		want    time.Duration
	}{
		{Options{}, 10 * time.Minute},
		{Options{Quick: true}, 10 * time.Second},
		{Options{Quick: true, Seconds: 5}, 5 * time.Second},
		{Options{Seconds: 30}, 30 * time.Second},
	} {
		got := r.sized(c.options)
		if got.Lanes[0].Soak != 0 || got.Lanes[1].Soak != c.want {
			t.Errorf("%+v: got %v and %v, want none and %v", c.options, got.Lanes[0].Soak, got.Lanes[1].Soak, c.want)
		}
		if bound := got.bound(got.Lanes[1]); bound != c.want+time.Second {
			t.Errorf("%+v: got the bound %v, want the soak in it", c.options, bound)
		}
	}
	if r.Lanes[1].Soak != 10*time.Minute {
		t.Error("the race itself has changed")
	}
}

// TestLight holds what the light tenant's race promises: the same lanes in both conditions,
// and a heavy tenant's backlog that outlasts it, in each size.
func TestLight(t *testing.T) {
	for _, o := range []Options{{}, {Quick: true}, {Quick: true, Seconds: 5}} {
		r := Light.sized(o)
		// Two seconds are what the course waits for the last jobs.
		most := int64((r.Lead + time.Duration(r.Seconds+2)*time.Second) / slotTime)
		for i := 0; i < len(r.Lanes); i += 2 {
			a, b := r.Lanes[i], r.Lanes[i+1]
			if a.Condition != alone || a.FillJobs != 0 || b.Condition != beside {
				t.Errorf("got %s (%d jobs) and %s, want a lane alone and beside", a, a.FillJobs, b)
			}
			if b.FillJobs < most {
				t.Errorf("%+v: got %d jobs beside %s, want more than %d, which its slots could do", o, b.FillJobs, b, most)
			}
			if a.Handler < slotTime || a.Handler != b.Handler || a.Settings != b.Settings || a.Server != b.Server {
				t.Errorf("got %+v and %+v, want them alike but for the backlog", a, b)
			}
		}
	}
}

func TestEntered(t *testing.T) {
	r := Race{Lanes: []Lane{{Contender: "ours", Settings: "tuned"}, {Contender: "ours", Settings: "tuned", Condition: "idle"}, {Contender: "river", Settings: "tuned"}}}
	for _, c := range []struct {
		options Options
		want    int
	}{
		{Options{}, 3},
		{Options{Only: []string{"ours"}}, 2},
		{Options{Only: []string{"ours", "river"}, Lane: "tuned, idle"}, 1},
		{Options{Only: []string{"gue"}}, 0},
	} {
		m := Meeting{options: c.options}
		if got := len(m.entered(r).Lanes); got != c.want {
			t.Errorf("%+v: got %d lanes, want %d", c.options, got, c.want)
		}
	}
	if len(r.Lanes) != 3 || r.Lanes[1].Condition != "idle" {
		t.Error("the race itself has changed")
	}
}

func TestAtMost(t *testing.T) {
	r := Race{Rounds: 2, Limit: time.Minute, Seconds: 30, Overhead: time.Second,
		Lanes: []Lane{{Contender: "a"}, {Contender: "b", Limit: 10 * time.Second}}}
	// a: 2 × 60 s + 30 s + 1 s; b: 2 × 10 s + 30 s + 1 s; each twice.
	if got, want := r.atMost(), 2*(151+51)*time.Second; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSummarize(t *testing.T) {
	race := &data.Race{Race: "drain", Rounds: []data.Round{
		{Contender: "river", Settings: "bench", Processes: 1, Rate: 300, P50: 1500},
		{Contender: "ours", Settings: "tuned", Processes: 1, Rate: 900},
		{Contender: "river", Settings: "bench", Processes: 1, Rate: 100, P50: 2500},
		{Contender: "river", Settings: "bench", Processes: 1, Error: "broken"},
		{Contender: "river", Settings: "bench", Processes: 4, Rate: 7000},
		{Contender: "gue", Settings: "tuned", Processes: 1, Error: "broken"},
	}}
	var out strings.Builder
	if err := Summarize(&out, race); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"gue tuned failed",
		"ours tuned 900 900–900 – – – – – – –",
		"river bench 200 100–300 2.00 – – – – – –",
		"river bench ×4 7000 7000–7000 – – – – – – –",
	}
	if got := lines[1:]; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
