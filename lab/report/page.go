package report

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/later-queue/later/lab/data"
)

// notes are written by hand: intro.md, counted.md (above the budgets), RACE.md for a race's section,
// and goal-ID.md or budget-ID.md for what stands in the way of one that was not reached.
//
//go:embed notes/*.md
var notes embed.FS

// Notes are the texts of the page that are written by hand.
var Notes fs.FS = sub(notes, "notes")

func sub(f fs.FS, dir string) fs.FS {
	s, err := fs.Sub(f, dir)
	if err != nil {
		panic(err) // the folder's name is not a valid path
	}
	return s
}

//go:embed page.md.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Render returns the page and its pictures by file name.
func Render(s Source) (page []byte, pictures map[string][]byte, err error) {
	p, err := s.page()
	if err != nil {
		return nil, nil, err
	}
	pictures = map[string][]byte{}
	for _, part := range p.Parts {
		for _, picture := range part.pictures {
			pictures[picture.file] = picture.svg
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), pictures, nil
}

// page is what the template gets.
type page struct {
	Intro, Goals, Budgets, BudgetsNote string
	Reached, Missed, Unknown           int
	Reasons                            []reason
	Quick                              []string
	Machines                           []string
	Parts                              []part
	Contenders, Servers, Races         string
}

// reason is what stands in the way of a goal that was not reached.
type reason struct{ What, Text string }

// part is one race in the page.
type part struct {
	Title, About, Note, Table string
	Images                    []string
	pictures                  []picture
}

func (s Source) page() (*page, error) {
	p := &page{}
	for _, note := range []struct {
		to   *string
		name string
	}{{&p.Intro, "intro"}, {&p.BudgetsNote, "counted"}} {
		text, err := s.note(note.name)
		if err != nil {
			return nil, err
		}
		*note.to = text
	}
	if err := errors.Join(s.goals(p), s.budgets(p), s.parts(p)); err != nil {
		return nil, err
	}
	for _, name := range s.names() {
		race := s.Races[name]
		if race.Quick {
			p.Quick = append(p.Quick, name)
		}
		if m := machine(race.Machine); !slices.Contains(p.Machines, m) {
			p.Machines = append(p.Machines, m)
		}
	}
	p.Contenders, p.Servers, p.Races = s.contenders(), s.servers(), s.commands()
	return p, nil
}

// names are the races in the order of their sections, others last.
func (s Source) names() []string {
	place := func(name string) int {
		if i := slices.IndexFunc(sections, func(sec section) bool { return sec.race == name }); i >= 0 {
			return i
		}
		return len(sections)
	}
	names := slices.Sorted(maps.Keys(s.Races))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return names
}

// note is a text that is written by hand; "" when there is none.
func (s Source) note(name string) (string, error) {
	text, err := fs.ReadFile(s.Notes, name+".md")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// unexplained stands where nobody has written yet why a goal was not reached.
const unexplained = "Not explained yet."

func (p *page) miss(s Source, note, what string) error {
	p.Missed++
	text, err := s.note(note)
	if text == "" {
		text = unexplained
	}
	p.Reasons = append(p.Reasons, reason{what, text})
	return err
}

// count counts a goal or a budget, and returns what the table says of it.
func (p *page) count(s Source, known, reached bool, note, what string) (string, error) {
	switch {
	case !known:
		p.Unknown++
		return "not run", nil
	case reached:
		p.Reached++
		return "yes", nil
	}
	return "**no**", p.miss(s, note, what)
}

func (s Source) goals(p *page) error {
	var rows [][]string
	var errs []error
	row := func(text, aim, ratio, usual, compared string, known, reached bool, id, what string) {
		verdict, err := p.count(s, known, reached, "goal-"+id, what)
		errs = append(errs, err)
		rows = append(rows, []string{text, aim, ratio, verdict, usual, compared})
	}
	context := "" // what "…" in the next text stands for
	for _, g := range goals {
		v := g.judge(s.Races)
		ratio, usual, compared := "", "", ""
		if v.known() {
			ratio = fmt.Sprintf("%s (%s–%s)", times(v.ratio.median), times(v.ratio.low), times(v.ratio.high))
			if v.atDefaults.n > 0 {
				usual = times(v.atDefaults.median)
			}
			compared = v.ours.title() + " / " + v.peer.title()
		}
		what := inFull(g.text, &context)
		row(g.text, "≥ "+times(g.atLeast), ratio, usual, compared, v.known(), v.reached(), g.id, what)
	}
	f := judgeFlat(s.Races)
	text := "an old snapshot is held at 2,000 jobs a second, ours at its defaults"
	compared := ""
	if f.known() {
		compared = "last fifth of the time / first fifth"
	}
	row(text, "flat", f.String(), "", compared, f.known(), f.reached(), "held", text)
	p.Goals = markdown([]string{"race", "goal", "ratio: median (range of the rounds)", "reached", "with our defaults", "compared"}, rows)
	return errors.Join(errs...)
}

// inFull is a text of a goal or a budget for where it stands alone: "…" stands for context,
// the last text that did not begin with it.
func inFull(text string, context *string) string {
	if rest, ok := strings.CutPrefix(text, "… "); ok {
		return *context + ": " + rest
	}
	*context = text
	return text
}

func (s Source) budgets(p *page) error {
	var rows [][]string
	var errs []error
	context := ""
	for _, b := range budgets {
		m := b.measure(s.Races)
		verdict, err := p.count(s, m.known(), m.kept(), "budget-"+b.id, inFull(b.text, &context))
		errs = append(errs, err)
		rows = append(rows, []string{b.text, fmt.Sprintf("≤ %g%s", b.limit, unit(b.unit)), m.String(), verdict})
	}
	p.Budgets = markdown([]string{"what", "budget", "measured: median (range)", "kept"}, rows)
	return errors.Join(errs...)
}

// parts are the sections of the races that were run.
func (s Source) parts(p *page) error {
	for _, name := range s.names() {
		race := s.Races[name]
		sec := section{race: name, title: "Race " + name, columns: drainColumns}
		if i := slices.IndexFunc(sections, func(sec section) bool { return sec.race == name }); i >= 0 {
			sec = sections[i]
		}
		part := part{Title: sec.title, About: race.About, Table: table(sec.columns, lanes(race))}
		var err error
		if part.Note, err = s.note(name); err != nil {
			return err
		}
		if sec.pictures != nil {
			part.pictures = sec.pictures(race)
		}
		for _, picture := range part.pictures {
			part.Images = append(part.Images, fmt.Sprintf("![%s](%s/%s)", picture.words, folder, picture.file))
		}
		p.Parts = append(p.Parts, part)
	}
	return nil
}

func machine(m data.Machine) string {
	return fmt.Sprintf("%s, %s, %.0f GiB of memory, %s, %s", m.CPU, count(m.Cores, "core"), float64(m.MemoryBytes)/(1<<30), m.System, m.Go)
}
