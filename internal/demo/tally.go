package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
)

// Tally is what the demo found at the end.
type Tally struct {
	Checks []Check
	// Dead are the dead jobs, oldest first.
	Dead []*later.JobInfo
	// Service counts the calls of the mail service.
	Service mailapi.Stats
}

// Check is one line of the tally.
type Check struct {
	Text   string
	Source string   // what was read for it
	Faults []string // why it does not hold; none: it holds
}

// OK reports whether every line holds.
func (t *Tally) OK() bool {
	return !slices.ContainsFunc(t.Checks, func(c Check) bool { return len(c.Faults) > 0 })
}

// tally compares the books.
func (f *facts) tally() *Tally {
	return &Tally{
		Checks: []Check{
			f.checkOrders(), f.checkConfirmations(), f.checkMails(), f.checkDeclined(),
			f.checkLeft(), f.checkDead(), f.checkKill(), f.checkDrain(),
		},
		Dead: f.dead, Service: f.service,
	}
}

func (c *Check) fault(format string, args ...any) {
	c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
}

func (f *facts) checkOrders() Check {
	c := Check{Text: fmt.Sprintf("%d orders taken, each stored", len(f.taken)), Source: "table orders"}
	stored, taken := set(f.orders), set(f.taken)
	for _, id := range f.taken {
		if !stored[id] {
			c.fault("order %d was taken and is not stored", id)
		}
	}
	for _, id := range f.orders {
		if !taken[id] {
			c.fault("order %d is stored and was not taken", id)
		}
	}
	if len(f.taken) == 0 {
		c.fault("no order was taken")
	}
	return c
}

func (f *facts) checkConfirmations() Check {
	c := Check{Text: fmt.Sprintf("%d orders confirmed, each exactly once", len(f.taken)), Source: "table confirmation"}
	for _, id := range f.taken {
		if n := f.confirmations[id]; n != 1 {
			c.fault("order %d is confirmed %s", id, times(n))
		}
	}
	return c
}

func (f *facts) checkMails() Check {
	c := Check{Text: fmt.Sprintf("%d mails written, one for each order", len(f.mails)), Source: "mails.jsonl"}
	counts := f.mailCounts()
	for _, id := range f.taken {
		if n := counts[id]; n != 1 {
			c.fault("order %d was mailed %s", id, times(n))
		}
	}
	return c
}

// checkDeclined: what was rolled back left nothing, and neither did any order
// that never was.
func (f *facts) checkDeclined() Check {
	c := Check{
		Text:   fmt.Sprintf("%d orders rolled back: no effect and no mail", len(f.declined)),
		Source: "the three above",
	}
	taken := set(f.taken)
	name := func(id int64) string {
		if slices.Contains(f.declined, id) {
			return fmt.Sprintf("order %d, which was rolled back,", id)
		}
		return fmt.Sprintf("order %d, which never was,", id)
	}
	counts := f.mailCounts()
	for _, id := range sorted(f.confirmations) {
		if !taken[id] {
			c.fault("%s is confirmed", name(id))
		}
	}
	for _, id := range sorted(counts) {
		if !taken[id] {
			c.fault("%s was mailed", name(id))
		}
	}
	return c
}

func (f *facts) checkLeft() Check {
	c := Check{Text: "no job left to do", Source: "table of jobs"}
	if f.left > 0 {
		c.fault("%s neither ended nor died", have(f.left, "job"))
	}
	return c
}

func (f *facts) checkDead() Check {
	c := Check{Text: fmt.Sprintf("%d poisoned jobs dead, each with its reason", len(f.poison)), Source: "table of dead jobs"}
	poison := set(f.poison)
	dead := map[int64]bool{}
	for _, job := range f.dead {
		dead[job.ID] = true
		switch {
		case !poison[job.ID]:
			c.fault("job %d is dead: %s", job.ID, lastError(job))
		case job.DeadReason == "" || len(job.Errors) == 0:
			c.fault("job %d is dead without a reason", job.ID)
		}
	}
	for _, id := range f.poison {
		if !dead[id] {
			c.fault("job %d, which cannot be done, is not dead", id)
		}
	}
	return c
}

func (f *facts) checkKill() Check {
	c := Check{Text: fmt.Sprintf("%s of a killed worker done by others", count(f.killedWith, "job")), Source: "exit status"}
	if f.killedWith == 0 {
		c.fault("no worker was killed in the middle of a job")
	}
	if f.killedWith > 0 && f.service.Absorbed == 0 {
		c.fault("nobody repeated the call that the killed worker had made")
	}
	return c
}

func (f *facts) checkDrain() Check {
	c := Check{Text: fmt.Sprintf("1 worker drained with %s in hand, exit code 0", count(f.drainedWith, "job")), Source: "exit status"}
	if f.drainedWith == 0 {
		c.fault("no worker drained in the middle of a job")
	}
	c.Faults = append(c.Faults, f.failed...)
	return c
}

func (f *facts) mailCounts() map[int64]int {
	counts := map[int64]int{}
	for _, mail := range f.mails {
		counts[mail.Order]++
	}
	return counts
}

func lastError(job *later.JobInfo) string {
	if len(job.Errors) == 0 {
		return "no error is kept"
	}
	text, _, _ := strings.Cut(job.Errors[len(job.Errors)-1].Error, "\n")
	return text
}

func set(ids []int64) map[int64]bool {
	m := map[int64]bool{}
	for _, id := range ids {
		m[id] = true
	}
	return m
}

func sorted(counts map[int64]int) []int64 {
	var ids []int64
	for id := range counts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func have(n int, noun string) string {
	if n == 1 {
		return count(n, noun) + " has"
	}
	return count(n, noun) + " have"
}
