package why

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
)

// Gate is how things stand with the limit of a job's queue, kind or tenant.
type Gate struct {
	Scope    later.Scope
	Standing later.Standing
	// Head is the job that comes first in an ordered scope, and HeadWhy the reason why that is
	// where it is; nil: there is none, or it has just gone.
	Head    *later.JobInfo
	HeadWhy Reason
}

// cause is one thing that holds a due job back.
type cause struct {
	code Code
	text string
	next string
	jobs []int64
}

// because is the reason of a job that is due and held back. The first cause gives the code.
func because(job *later.JobInfo, causes []cause) Reason {
	due := Reason{Code: causes[0].code, Text: fmt.Sprintf("due %s, but", age.Relative(job.RunAt, job.Now))}
	return due.with(causes, " ")
}

// with is the reason with causes behind a first word; the next step is that of the first that has one.
func (r Reason) with(causes []cause, before string) Reason {
	for _, c := range causes {
		r.Text += before + c.text
		before = ", and "
		if r.Next == "" {
			r.Next = c.next
		}
		for _, id := range c.jobs {
			if text := strconv.FormatInt(id, 10); !slices.Contains(r.Jobs, text) {
				r.Jobs = append(r.Jobs, text)
			}
		}
	}
	return r
}

// paused are those of its queue, kind and tenant that are.
func paused(job *later.JobInfo, pauses []later.Pause) []cause {
	var causes []cause
	for _, p := range pauses {
		if !slices.Contains(Scopes(job), p.Scope) {
			continue
		}
		text := fmt.Sprintf("%v has been paused for %s, by %s", p.Scope, age.Short(job.Now.Sub(p.Since)), p.By)
		if p.Reason != "" {
			text += " (" + p.Reason + ")"
		}
		causes = append(causes, cause{code: Paused, text: text,
			next: fmt.Sprintf("to let it go on: later resume %s", words(p.Scope))})
	}
	return causes
}

// Scopes are a job's queue, its kind and, if it has one, its tenant.
func Scopes(job *later.JobInfo) []later.Scope {
	scopes := []later.Scope{{Of: later.ScopeQueue, Name: job.Queue}, {Of: later.ScopeKind, Name: job.Kind}}
	if job.Tenant != "" {
		scopes = append(scopes, later.Scope{Of: later.ScopeTenant, Name: job.Tenant})
	}
	return scopes
}

// limited are the limits that do not let the job start now.
func limited(job *later.JobInfo, gates []Gate) []cause {
	var causes []cause
	for _, g := range gates {
		running := g.Standing.Running
		most, capped := g.Standing.Limit.Cap()
		switch {
		case !capped || slices.Contains(running, job.ID): // it has a place already
		case g.Standing.Limit.Ordered && len(running) > 0:
			causes = append(causes, behind(job, g))
		case !g.Standing.Limit.Ordered && len(running) >= most:
			causes = append(causes, full(g, most))
		}
		if wait := g.Standing.NextStart; wait.After(job.Now) {
			causes = append(causes, cause{code: Rate, text: fmt.Sprintf("%v lets %s, and the next one %s (%s)",
				g.Scope, rateText(g.Standing.Limit.Rate, "start"), age.Relative(wait, job.Now), wait.UTC().Format(time.RFC3339))})
		}
	}
	return causes
}

func full(g Gate, most int) cause {
	c := cause{code: Full, jobs: g.Standing.Running}
	raise := fmt.Sprintf("later limit %s --max-running %d", words(g.Scope), max(most, len(g.Standing.Running))+1)
	switch n := len(g.Standing.Running); {
	case most == 0:
		c.text, c.next = fmt.Sprintf("the limit of %v lets none run", g.Scope), "to let it run: "+raise
		if n > 0 {
			c.text += fmt.Sprintf(" (%s before it: %s)", plural(n, "job began", "jobs began"), idList(g.Standing.Running))
		}
	default:
		c.text = fmt.Sprintf("%v runs %s of at most %d: %s", g.Scope, plural(n, "job", "jobs"), most, idList(g.Standing.Running))
		c.next = "wait until one of them ends, or let more run: " + raise
	}
	return c
}

// behind is the cause when another job of an ordered scope comes first.
func behind(job *later.JobInfo, g Gate) cause {
	id := g.Standing.Running[0]
	c := cause{code: Behind, jobs: g.Standing.Running[:1], text: fmt.Sprintf("%v is ordered, and job %d comes first", g.Scope, id)}
	head := g.Head
	if head == nil {
		return c
	}
	switch now := job.Now; head.State {
	case later.StateRunning:
		c.text += fmt.Sprintf(", which has been running on worker %s for %s", head.Worker, age.Short(now.Sub(head.ClaimedAt)))
		if g.HeadWhy.Code == Silent {
			c.text += " and whose worker is not heard of"
		}
	case later.StateDead:
		c.text += fmt.Sprintf(", which has been dead for %s", age.Short(now.Sub(head.DiedAt)))
		c.next = fmt.Sprintf("once the cause is mended: later retry %d; or without it: later delete %d", id, id)
	case later.StateEnded:
		c.text += ", which has just ended"
	default:
		c.text += ": " + g.HeadWhy.Text
		c.next = g.HeadWhy.Next
	}
	return c
}

// shownIDs is how many ids are named. Chosen: a line has room for them.
const shownIDs = 10

func idList(ids []int64) string {
	var texts []string
	for _, id := range ids[:min(len(ids), shownIDs)] {
		texts = append(texts, strconv.FormatInt(id, 10))
	}
	if more := len(ids) - shownIDs; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), more)
	}
	return strings.Join(texts, ", ")
}

// words are a scope as arguments in a shell.
func words(scope later.Scope) string { return string(scope.Of) + " " + ShellWord(scope.Name) }

// ShellWord is a name as a word of a shell.
func ShellWord(name string) string {
	if later.CheckName("name", name) == nil {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
