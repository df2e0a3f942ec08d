package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/later-queue/later/lab/data"
	"github.com/later-queue/later/lab/race"
	"github.com/later-queue/later/lab/registry"
)

// rounds are rounds of one lane with these rates.
func rounds(contender, settings string, rates ...float64) []data.Round {
	var all []data.Round
	for i, r := range rates {
		all = append(all, data.Round{Contender: contender, Settings: settings, Server: "postgres", Processes: 1,
			Round: i + 1, Jobs: 1000, Backlog: 1000, Rate: r})
	}
	return all
}

// sample is a small meeting: ours is 7 times River, 4 times Graphile Worker, and
// its defaults are 0.9 of it.
func sample() Source {
	drain := &data.Race{
		Race: "drain", About: "Workers drain a backlog.", When: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Commit: "abc", Command: "go run . race drain",
		Machine:    data.Machine{CPU: "a processor", Cores: 2, MemoryBytes: 24 << 30, System: "linux/amd64", Go: "go1.26.8"},
		Servers:    map[string]map[string]string{"postgres": {"synchronous_commit": "on"}},
		Contenders: map[string]data.Contender{"river": {Name: "river", Version: "0.51.2", Settings: map[string]string{"bench": "2,000 workers"}}},
		Rounds: slices.Concat(
			rounds("ours", "tuned", 7000, 70000, 700), rounds("ours", "defaults", 6300, 63000, 630),
			rounds("river", "bench", 1000, 10000, 100), rounds("graphile", "bench", 1750, 17500, 175),
			rounds("floor", "defaults", 9000, 90000, 900)),
	}
	slow := rounds("graphile", "bench", 1000, 10000, 100)
	for i := range slow {
		slow[i].Processes = 4
	}
	drain.Rounds = append(drain.Rounds, slow...)
	for i := range drain.Rounds {
		drain.Rounds[i].Commits = 0.01
	}
	steady := &data.Race{Race: "steady", About: "Latency.", Machine: drain.Machine, Rounds: []data.Round{
		{Contender: "ours", Settings: "defaults", Processes: 1, Round: 1, P50: 0, P99: 2000, Points: []data.Point{{0.5, 0}, {0.99, 2000}, {1, 3000}}},
		{Contender: "river", Settings: "defaults", Processes: 1, Round: 1, P50: 50_000, P99: 8000, Points: []data.Point{{0.5, 50_000}, {0.99, 80_000}, {1, 90_000}}},
	}}
	return Source{Races: map[string]*data.Race{"drain": drain, "steady": steady}, Notes: fstest.MapFS{
		"intro.md":         {Data: []byte("An introduction.\n")},
		"drain.md":         {Data: []byte("A remark about the drain.\n")},
		"goal-graphile.md": {Data: []byte("It batches too.\n")},
	}}
}

// line is the first line of text that begins so.
func line(t *testing.T, text, start string) string {
	t.Helper()
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, start) {
			return strings.TrimSpace(l)
		}
	}
	t.Fatalf("no line begins with %q in\n%s", start, text)
	return ""
}

func render(t *testing.T, s Source) (string, map[string][]byte) {
	t.Helper()
	page, pictures, err := Render(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(page), pictures
}

func TestGoals(t *testing.T) {
	page, _ := render(t, sample())
	t.Run("a goal is judged by the median of the rounds' ratios", func(t *testing.T) {
		got := line(t, page, "| drain, against River at its")
		want := "| drain, against River at its benchmark settings | ≥ 6.0× | 7.0× (7.0×–7.0×) | yes | 6.3× | Later, tuned / River, benchmark |"
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	t.Run("the peer is its best lane, and a missed goal is said to be missed", func(t *testing.T) {
		got := line(t, page, "| drain, against Graphile Worker")
		for _, want := range []string{"| 4.0× (4.0×–4.0×) | **no** |", "/ Graphile Worker, benchmark |"} {
			if !strings.Contains(got, want) {
				t.Errorf("got %s\nwant %s in it", got, want)
			}
		}
	})
	t.Run("a goal whose race has not been run is neither", func(t *testing.T) {
		if got, want := line(t, page, "| drain on SQLite, against goqite"), "| ≥ 8.0× |  | not run |"; !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s in it", got, want)
		}
	})
	t.Run("ours against ours", func(t *testing.T) {
		if got, want := line(t, page, "| drain, ours at its defaults"), "| 0.90× (0.90×–0.90×) | yes |"; !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s in it", got, want)
		}
	})
	t.Run("of latencies less is better, and 0 counts as a microsecond", func(t *testing.T) {
		if got, want := line(t, page, "| 2,000 jobs a second, commit to start, p50"), "| 50000× (50000×–50000×) | yes |"; !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s in it", got, want)
		}
		if got, want := line(t, page, "| … p99 |"), "| 4.0× (4.0×–4.0×) | **no** |"; !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s in it", got, want)
		}
	})
	t.Run("what stands in the way is the note, or that there is none yet", func(t *testing.T) {
		if got, want := line(t, page, "**drain, against Graphile Worker"), "It batches too."; !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want it to end in %s", got, want)
		}
		if got, want := line(t, page, "**2,000 jobs a second"), unexplained; !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want it to end in %s", got, want)
		}
	})
	t.Run("goals and budgets are counted", func(t *testing.T) {
		want := "Of the goals and budgets below, 4 are reached, 2 are not, and 26 have not been run."
		if got := line(t, page, "Of the goals"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestFeatured(t *testing.T) {
	all := lanes(&data.Race{Rounds: slices.Concat(
		rounds("ours", "tuned", 9), rounds("ours", "defaults", 8), rounds("river", "bench", 5), rounds("river", "wide", 6), rounds("river", "defaults", 1),
		rounds("goqite", "bench", 2), rounds("goqite", "tuned", 1), rounds("goqite", "normal", 4), rounds("goqite", "defaults", 0.1))})
	for usual, want := range map[bool][]string{
		true:  {"ours tuned", "ours defaults", "river wide", "river defaults", "goqite bench", "goqite normal", "goqite defaults"},
		false: {"ours tuned", "ours defaults", "river wide", "river defaults", "goqite bench", "goqite normal"},
	} {
		var got []string
		for _, l := range featured(all, rate, usual) {
			got = append(got, l.contender+" "+l.settings)
		}
		if !slices.Equal(got, want) {
			t.Errorf("with the defaults of all %v: got %q, want %q", usual, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{{5.99, "5.9×"}, {6, "6.0×"}, {29.9, "29×"}, {0.799, "0.79×"}, {0.8, "0.80×"}, {148.2, "148×"}} {
		if got := times(c.v); got != c.want {
			t.Errorf("%v: got %s, want %s: rounded down", c.v, got, c.want)
		}
	}
}

func TestBudgets(t *testing.T) {
	round := func(contender, settings, condition string, cpu, wal float64) data.Round {
		return data.Round{Contender: contender, Settings: settings, Condition: condition, Processes: 1, Round: 1,
			Rate: 1, ServerCPU: cpu, WALBytes: wal, EnqueueWAL: 400}
	}
	capped, held := round("ours", "tuned", "capped", 26, 0), round("ours", "tuned", "capped, held", 60, 0)
	capped.Rate, held.Rate = 20_000, 15_000
	s := sample()
	s.Races["budgets"] = &data.Race{Race: "budgets", Rounds: []data.Round{
		round("floor", "defaults", "plain", 10, 100), round("ours", "tuned", "plain", 14, 210),
		round("ours", "logged", "plain", 20, 520), round("ours", "tuned", "held", 21, 0),
		capped, held,
	}}
	s.Races["light"] = lightRace()
	s.Notes = fstest.MapFS{"counted.md": {Data: []byte("Counts.")}, "budgets.md": {Data: []byte("A remark.")}}
	page, _ := render(t, s)
	for _, note := range []string{"Counts.", "A remark."} {
		if got := strings.Count(page, note); got != 1 {
			t.Errorf("the note %q is %d times in the page, want once", note, got)
		}
	}
	for start, want := range map[string]string{
		"| WAL per job, enqueue":             "| ≤ 650 B | 610 B (610–610) | yes |",
		"| … log on":                         "| ≤ 900 B | 920 B (920–920) | **no** |",
		"| commits per job":                  "| ≤ 0.02 | 0.0100 (0.0100–0.0100) | yes |",
		"| server CPU per job":               "| ≤ 1.5× | 1.40× (1.40–1.40) | yes |",
		"| … while another transaction":      "| ≤ 1.3× | 1.50× (1.50–1.50) | **no** |",
		"| … with 10,000 tenants, against":   "| ≤ 3× | not measured | not run |",
		"| … with 10,000 tenants, each":      "| ≤ 2.5× | 2.60× (2.60–2.60) | **no** |",
		"| rate that a drain with such caps": "| ≤ 30% | 25.0% (25.0–25.0) | yes |",
		"| a light tenant's wait":            "| ≤ 5× | 4.00× (4.00–4.00) | yes |",
		"| … ours tuned":                     "| ≤ 5× | 8.00× (8.00–8.00) | **no** |",
		"**a light tenant's wait":            "ours at its defaults: ours tuned.** " + unexplained,
		"| memory of a worker process at 1,": "| ≤ 64 MiB | not measured | not run |",
	} {
		if got := line(t, page, start); !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s in it", got, want)
		}
	}
}

// lightRace has ours at its defaults 4 times slower beside a heavy tenant, ours tuned 8
// times, and River's jobs behind everything.
func lightRace() *data.Race {
	r := &data.Race{Race: "light", About: "A light tenant."}
	add := func(contender, settings, condition string, p99 float64, missing int64) {
		r.Rounds = append(r.Rounds, data.Round{Contender: contender, Settings: settings, Condition: condition, Server: "postgres",
			Processes: 1, Round: 1, Rate: 5000, P50: p99 / 2, P99: p99, Missing: missing, Points: []data.Point{{0.5, p99 / 2}, {0.99, p99}, {1, p99}}})
	}
	add("ours", "defaults", "alone", 1000, 0)
	add("ours", "defaults", "beside", 4000, 0)
	add("ours", "tuned", "alone", 1000, 0)
	add("ours", "tuned", "beside", 8000, 0)
	add("river", "bench", "alone", 9000, 0)
	add("river", "bench", "beside", 30e6, 300)
	return r
}

func TestLight(t *testing.T) {
	s := sample()
	s.Races["light"] = lightRace()
	page, pictures := render(t, s)
	t.Run("each condition has its picture, with all contenders", func(t *testing.T) {
		for _, file := range []string{"light-beside.svg", "light-alone.svg"} {
			svg := string(pictures[file])
			for _, name := range []string{"Later, tuned", "Later, defaults", "River"} {
				if strings.Count(svg, ">"+name+"<") != 1 {
					t.Errorf("%s: the name %q is not in it once", file, name)
				}
			}
		}
		if bytes.Equal(pictures["light-beside.svg"], pictures["light-alone.svg"]) {
			t.Error("both pictures are the same")
		}
	})
	t.Run("the table has a lane in each condition", func(t *testing.T) {
		for start, want := range map[string]string{
			"| **Later, tuned** | alone |":   "| 1 ms (1 ms–1 ms) |  |",
			"| **Later, tuned** | beside |":  "| 8 ms (8 ms–8 ms) |  |",
			"| River, benchmark | beside | ": "| 30 s (30 s–30 s) | 300 |",
		} {
			if got := line(t, page, start); !strings.Contains(got, want) {
				t.Errorf("got %s\nwant %s in it", got, want)
			}
		}
	})
}

func TestFlat(t *testing.T) {
	held := func(end, cost float64) flat {
		r := data.Round{Contender: "ours", Settings: "defaults", Processes: 1, Round: 1, Rate: 2000, Series: map[string][]data.Point{}}
		for i := range 50 {
			x := float64(i)
			done, cpu := 2000.0, 100.0
			if i >= 40 {
				done, cpu = end, cost
			}
			r.Series["acked"] = append(r.Series["acked"], data.Point{x, 2000})
			r.Series["done"] = append(r.Series["done"], data.Point{x, done})
			r.Series["server_cpu_us"] = append(r.Series["server_cpu_us"], data.Point{x, cpu})
		}
		return judgeFlat(map[string]*data.Race{"held": {Race: "held", Rounds: []data.Round{r}}})
	}
	for _, c := range []struct {
		name      string
		end, cost float64
		want      bool
	}{
		{"the rate and the cost are kept", 1990, 105, true},
		{"the rate falls", 1800, 100, false},
		{"a job becomes dearer", 2000, 150, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if f := held(c.end, c.cost); f.reached() != c.want {
				t.Errorf("reached %v (%s), want %v", f.reached(), f, c.want)
			}
		})
	}
	t.Run("without the race nothing is known", func(t *testing.T) {
		if judgeFlat(nil).known() {
			t.Error("it is judged without a race")
		}
	})
}

func TestPage(t *testing.T) {
	page, pictures := render(t, sample())
	t.Run("each picture is in the page, and each in the page exists", func(t *testing.T) {
		for name, svg := range pictures {
			if !strings.Contains(page, "(benchmarks/"+name+")") {
				t.Errorf("%s is not in the page", name)
			}
			d := xml.NewDecoder(bytes.NewReader(svg))
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		if got, want := strings.Count(page, "](benchmarks/"), len(pictures); got != want || want != 2 {
			t.Errorf("%d pictures in the page, %d made, want 2", got, want)
		}
	})
	t.Run("the order in which rounds were run does not matter", func(t *testing.T) {
		for seed := range uint64(20) {
			s := sample()
			all := s.Races["drain"].Rounds
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			again, others := render(t, s)
			if again != page {
				t.Fatalf("another page with seed %d:\n%s", seed, again)
			}
			for name := range pictures {
				if !bytes.Equal(pictures[name], others[name]) {
					t.Fatalf("another %s with seed %d", name, seed)
				}
			}
		}
	})
	t.Run("machine, settings, versions, commands and notes are there", func(t *testing.T) {
		for _, want := range []string{"a processor, 2 cores, 24 GiB", "synchronous_commit = on", "| 0.51.2 | `bench` | 2,000 workers |",
			"`go run . race drain`", "2026-11-30 12:00", "An introduction.", "A remark about the drain.", "| **Later, tuned** | 7k (700–70k) |"} {
			if !strings.Contains(page, want) {
				t.Errorf("%q is not in the page\n%s", want, page)
			}
		}
	})
	t.Run("a round that failed is said, and not counted", func(t *testing.T) {
		s := sample()
		s.Races["drain"].Rounds = append(s.Races["drain"].Rounds,
			data.Round{Contender: "gue", Settings: "tuned", Processes: 1, Round: 1, Error: "no connection\nand more"})
		page, _ := render(t, s)
		if got := line(t, page, "| gue, tuned |"); !strings.Contains(got, "a round failed: no connection |") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("small sizes are said to be small", func(t *testing.T) {
		s := sample()
		s.Races["drain"].Quick = true
		small, _ := render(t, s)
		if strings.Contains(page, "Small sizes") || !strings.Contains(small, "not for showing: drain.") {
			t.Error("the page does not tell small sizes from full ones")
		}
	})
}

func TestWrite(t *testing.T) {
	docs, results := t.TempDir(), t.TempDir()
	for _, r := range sample().Races {
		if err := data.Write(results, r); err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(docs, folder, "gone.svg")
	if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, []byte("<svg/>"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Load(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(s, docs); err != nil {
		t.Fatal(err)
	}
	t.Run("the page and its pictures are written, old pictures are removed", func(t *testing.T) {
		var got []string
		err := filepath.WalkDir(docs, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				got = append(got, strings.TrimPrefix(path, docs+"/"))
			}
			return err
		})
		if want := []string{"benchmarks/drain.svg", "benchmarks/steady.svg", "benchmarks.md"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("files %v (%v), want %v", got, err, want)
		}
	})
	t.Run("a folder without results is an error", func(t *testing.T) {
		if _, err := Load(t.TempDir()); err == nil {
			t.Error("no error")
		}
	})
}

// TestLists holds the lists that name each other.
func TestLists(t *testing.T) {
	t.Run("each contender of the registry has a name and a colour", func(t *testing.T) {
		for _, e := range registry.Entries {
			if rank(e.Name) == len(contenders) {
				t.Errorf("%s is not in the list of names", e.Name)
			}
		}
	})
	t.Run("each race has a section", func(t *testing.T) {
		for _, r := range race.All {
			if !slices.ContainsFunc(sections, func(s section) bool { return s.race == r.Name }) {
				t.Errorf("%s has no section", r.Name)
			}
		}
	})
	t.Run("each note is shown somewhere", func(t *testing.T) {
		known := map[string]bool{"intro": true, "counted": true, "goal-held": true}
		for _, s := range sections {
			known[s.race] = true
		}
		for _, g := range goals {
			known["goal-"+g.id] = true
		}
		for _, b := range budgets {
			known["budget-"+b.id] = true
		}
		names, err := fs.Glob(Notes, "*.md")
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			if !known[strings.TrimSuffix(name, ".md")] {
				t.Errorf("nothing shows the note %s", name)
			}
		}
	})
	t.Run("each budget is of lanes that its race has", func(t *testing.T) {
		for _, b := range budgets {
			r, err := race.Find(b.race)
			if err != nil {
				t.Fatal(err)
			}
			var all []*lane
			for _, l := range r.Lanes {
				all = append(all, &lane{contender: l.Contender, settings: l.Settings, condition: l.Condition, rounds: []data.Round{{}}})
			}
			if b.ours.find(all) == nil || b.over != nil && b.over.find(all) == nil {
				t.Errorf("the race %s does not have the lanes of the budget %s", b.race, b.id)
			}
		}
	})
	t.Run("each goal can be reached by lanes that its race has", func(t *testing.T) {
		for _, g := range goals {
			found := false
			for _, name := range g.races {
				r, err := race.Find(name)
				if err != nil {
					continue
				}
				var all []*lane
				for _, l := range r.Lanes {
					all = append(all, &lane{contender: l.Contender, settings: l.Settings, server: l.Server, rounds: []data.Round{{Rate: 1, P50: 1, P99: 1}}})
				}
				found = found || g.ours.best(all, g.metric) != nil && g.peer.best(all, g.metric) != nil
			}
			if !found {
				t.Errorf("no race has the lanes of the goal %s", g.id)
			}
		}
	})
}
