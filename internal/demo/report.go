package demo

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/open"
	"github.com/later-queue/later/internal/terminal"
)

// report prints what happened, the tally, and how to look further.
func (d *demo) report(t *Tally) error {
	r := &report{paint: terminal.NewPalette(d.config.Colour), width: 80}
	columns, _ := terminal.Size(d.config.Out)
	if columns > 0 {
		r.width = columns
	}
	if columns > 0 { // the panel, which told it, has gone
		r.head("What happened")
		for _, e := range d.story.all() {
			for _, line := range eventLines(e, r.paint, r.width-1) {
				r.line("%s", line)
			}
		}
	}
	r.head("The tally, by the shop's books and the mails")
	r.checks(t.Checks)
	r.line("")
	s := t.Service
	r.text(fmt.Sprintf("The mail service had %d calls, of which %d failed, %d of them after the mail was written. %s asked again for a mail that was there: "+
		"the idempotency key was known, and no second mail was written.", s.Calls, s.Failed(), s.LostAnswers+s.LateAnswers, count(s.Absorbed, "call")))
	r.dead(t)
	r.further(d.config, d.place, t)
	r.line("")
	if t.OK() {
		r.line("%s", r.paint.Good(fmt.Sprintf("It adds up: %d orders, %d confirmations, %d mails, in %s.", d.config.Orders, d.config.Orders, s.Written, seconds(d.story.elapsed()))))
	} else {
		r.line("%s", r.paint.Bad("It does not add up."))
	}
	_, err := io.WriteString(d.config.Out, r.String())
	return err
}

// report is text in the making.
type report struct {
	strings.Builder
	paint terminal.Palette
	width int
}

func (r *report) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

func (r *report) head(title string) { r.line("\n%s\n", r.paint.Head(title)) }

// text is a paragraph.
func (r *report) text(text string) {
	for _, line := range wrap(text, r.width-4) {
		r.line("  %s", line)
	}
}

func (r *report) checks(checks []Check) {
	widest := 0
	for _, c := range checks {
		widest = max(widest, terminal.Width(c.Text))
	}
	for _, c := range checks {
		mark := r.paint.Good("ok   ")
		if len(c.Faults) > 0 {
			mark = r.paint.Bad("WRONG")
		}
		r.line("  %s  %s%s", mark, c.Text, r.paint.Faint(strings.Repeat(" ", widest-terminal.Width(c.Text)+2)+c.Source))
		for i, fault := range c.Faults {
			if i == 10 {
				r.line("         … and %d more", len(c.Faults)-i)
				break
			}
			r.line("         %s", terminal.Safe(fault))
		}
	}
}

// dead lists the dead jobs with the last error of each.
func (r *report) dead(t *Tally) {
	if len(t.Dead) == 0 {
		return
	}
	r.head("Dead jobs")
	for _, job := range t.Dead {
		payload := terminal.Safe(later.ClipText(string(job.Payload), 40))
		r.line("  job %d  %s after %s  %s", job.ID, r.paint.Bad(string(job.DeadReason)), count(job.Attempt, "attempt"), r.paint.Faint(payload))
		for _, line := range wrap(terminal.Safe(lastError(job)), r.width-7) {
			r.line("      %s", line)
		}
	}
}

// further says how to look at everything.
func (r *report) further(config Config, at place, t *Tally) {
	r.head("Look for yourself")
	if config.Remove && t.OK() {
		r.line("  Everything is removed now. With --keep it stays, and you are told how to look at it.")
		return
	}
	// The database in a variable: so no command is wider than the terminal.
	db, where := open.Redact(at.DB), []string{"--db", `"$db"`}
	sql, jobs, shop := []string{"psql", `"$db"`, "-c"}, at.quotedSchema()+".", at.quotedSchema()+"."
	if file, ok := at.sqliteFile(); ok {
		db, where = file, []string{"--db", `sqlite:"$db"`}
		sql, jobs, shop = []string{"sqlite3", `"$db"`}, "later_", ""
	} else {
		where = append(where, "--schema", shellWord(at.Schema))
	}
	query := func(text string) { r.command(append(slices.Clone(sql), shellWord(text))...) }
	later := strings.Fields(config.Command)
	r.line("  The database:")
	r.command("db=" + shellWord(db))
	r.line("  The dead jobs:")
	r.command(slices.Concat(later, []string{"dead", "list"}, where)...)
	if len(t.Dead) > 0 {
		r.command(slices.Concat(later, []string{"dead", "show", fmt.Sprint(t.Dead[0].ID)}, where)...)
	}
	query("select id, reason, error from " + jobs + "dead_job")
	r.line("  The orders that are confirmed, and the confirmations:")
	query("select count(distinct order_id), count(*) from " + shop + "confirmation")
	r.line("  The mails, and what the workers said:")
	r.line("    %s", filepath.Join(at.Dir, outboxFile))
	r.line("    %s", filepath.Join(at.Dir, "worker-*.log"))
	r.line("  Remove it all:")
	if config.Dir == "" {
		r.command("rm", "-r", shellWord(at.Dir))
	}
	if at.Schema != "" {
		query("drop schema " + at.quotedSchema() + " cascade")
	}
}

// command is a line to be copied into a shell. One that is wider than the
// terminal goes on in another line as a shell reads it.
func (r *report) command(words ...string) {
	line := "   "
	for i, word := range words {
		behind := 0
		if i < len(words)-1 {
			behind = len(` \`)
		}
		if i > 0 && terminal.Width(line)+1+terminal.Width(word)+behind > r.width {
			r.line(`%s \`, line)
			line = "     "
		}
		line += " " + word
	}
	r.line("%s", line)
}

// shellWord quotes a word for a POSIX shell where that is needed.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
