package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/age"
	"github.com/later-queue/later/internal/terminal"
	"github.com/later-queue/later/internal/why"
)

// limitView is what a queue, a kind or a tenant has for a limit, with --json.
type limitView struct {
	Of   later.ScopeOf `json:"of"`
	Name string        `json:"name"` // empty for every tenant
	// The limit of its own:
	MaxRunning *int       `json:"max_running"` // null: any number
	Rate       *rateView  `json:"rate"`        // null: none
	Ordered    bool       `json:"ordered"`
	OnDead     string     `json:"on_dead"`
	Weight     int        `json:"weight"`
	Since      *time.Time `json:"since"` // null: it has none of its own
	By         string     `json:"by"`
	// Holds says what holds, in words: for a tenant with what it has from every tenant's.
	Holds string `json:"holds"`
}

type rateView struct {
	Starts   int     `json:"starts"`
	PeriodMS float64 `json:"period_ms"`
	Burst    int     `json:"burst"`
}

func viewLimit(own later.ScopeLimit, holds later.Limit) limitView {
	l := own.Limit
	v := limitView{
		Of: own.Scope.Of, Name: own.Scope.Name, MaxRunning: l.MaxRunning, Ordered: l.Ordered, OnDead: deadGoesBy, Weight: max(l.Weight, 1),
		Since: instant(own.Since), By: own.By, Holds: why.LimitText(holds),
	}
	if l.OnDead == later.DeadBlocks {
		v.OnDead = deadBlocks
	}
	if l.Rate != (later.Rate{}) {
		v.Rate = &rateView{Starts: l.Rate.N, PeriodMS: float64(l.Rate.Period) / float64(time.Millisecond), Burst: max(l.Rate.Burst, 1)}
	}
	return v
}

func (a *App) listLimits(ctx context.Context, store later.Store, limits later.Limiter) error {
	list, err := limits.Limits(ctx)
	if err != nil {
		return err
	}
	if a.flags.json {
		view := struct {
			Limits []limitView `json:"limits"`
		}{[]limitView{}}
		for _, l := range list {
			view.Limits = append(view.Limits, viewLimit(l, l.Limit))
		}
		return a.printJSON(view)
	}
	if len(list) == 0 {
		return a.printf("nothing is limited\n")
	}
	now, err := storeTime(ctx, store)
	if err != nil {
		return err
	}
	t := terminal.NewTable(terminal.Column{Title: "limit of"}, terminal.Column{Title: "name", Max: 40}, terminal.Column{Title: "what"},
		terminal.Column{Title: "since", Drop: 2}, terminal.Column{Title: "by", Rest: true, Drop: 1})
	for _, l := range list {
		t.Row(string(l.Scope.Of), l.Scope.Name, why.LimitText(l.Limit), age.Short(now.Sub(l.Since)), l.By)
	}
	return a.printTable(t)
}

// standingView is how things stand with a limit, with --json.
type standingView struct {
	limitView
	Running   []string   `json:"running"`    // the jobs that fill it, or the one that comes first
	NextStart *time.Time `json:"next_start"` // null: now
}

// shownRunning is how many of the jobs that fill a limit are named. Chosen: --json has all.
const shownRunning = 20

func (a *App) showLimit(ctx context.Context, store later.Store, limits later.Limiter, scope later.Scope) error {
	own, ok, err := findLimit(ctx, limits, scope)
	if err != nil {
		return err
	}
	standing := later.Standing{Limit: own.Limit}
	if scope != everyTenant { // of all together there is nothing to tell
		if standing, err = limits.Standing(ctx, scope); err != nil {
			return err
		}
	}
	if a.flags.json {
		view := standingView{limitView: viewLimit(own, standing.Limit), Running: []string{}, NextStart: instant(standing.NextStart)}
		for _, id := range standing.Running {
			view.Running = append(view.Running, formatID(id))
		}
		return a.printJSON(view)
	}
	now, err := storeTime(ctx, store)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", terminal.Safe(scope.String()), holdsText(scope, ok, own.Limit, standing.Limit))
	line := func(name, text string) {
		fmt.Fprintf(&b, "  %s  %s\n", a.palette.Faint(fmt.Sprintf("%-10s", name)), terminal.Safe(text))
	}
	if ok {
		line("set", fmt.Sprintf("%s, by %s", moment(own.Since, now), own.By))
	}
	if _, capped := standing.Limit.Cap(); capped && scope != everyTenant {
		if standing.Limit.Ordered && len(standing.Running) > 0 {
			text, err := firstText(ctx, store, limits, standing.Running[0])
			if err != nil {
				return err
			}
			line("first", text)
		} else {
			line("running", runningText(standing.Running))
		}
	}
	if standing.Limit.Rate != (later.Rate{}) && scope != everyTenant {
		next := "now"
		if standing.NextStart.After(now) {
			next = moment(standing.NextStart, now)
		}
		line("next start", next)
	}
	pauses, err := store.Pauses(ctx)
	if err != nil {
		return err
	}
	for _, p := range pauses {
		if p.Scope == scope {
			line("paused", pausedText(p.By, p.Reason, now.Sub(p.Since)))
		}
	}
	_, err = a.Out.Write([]byte(b.String()))
	return err
}

// firstText is the job that comes first in an ordered scope, and why it is where it is.
func firstText(ctx context.Context, store later.Store, limits later.Limiter, id int64) (string, error) {
	job, err := store.Find(ctx, id)
	if errors.Is(err, later.ErrNotFound) { // it has ended meanwhile, and there is no log
		return "none", nil
	}
	if err != nil {
		return "", err
	}
	reason, err := why.Ask(ctx, store, limits, job)
	return fmt.Sprintf("job %d: %s", id, reason.Text), err
}

func runningText(ids []int64) string {
	if len(ids) == 0 {
		return "none"
	}
	var texts []string
	for _, id := range ids[:min(len(ids), shownRunning)] {
		texts = append(texts, formatID(id))
	}
	text := strings.Join(texts, ", ")
	if more := len(ids) - shownRunning; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s: %s", plural(len(ids), "job", "jobs"), text)
}
