package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/later-queue/later/internal/bench"
	"github.com/later-queue/later/internal/open"
)

// cleanView is what --clean did, with --json.
type cleanView struct {
	Removed []string `json:"removed"`
	InUse   []string `json:"in_use"`
	Foreign []string `json:"foreign"` // of other users, who alone may remove them
}

// cleanBench removes what killed runs have left.
func (a *App) cleanBench(ctx context.Context) error {
	left, err := bench.Clean(ctx, a.flags.db)
	if err != nil {
		return benchProblem(a.fromVariable(err))
	}
	view := cleanView{Removed: []string{}, InUse: []string{}, Foreign: []string{}}
	var lines, owners []string
	for _, l := range left {
		switch {
		case l.InUse:
			view.InUse = append(view.InUse, l.Name)
			lines = append(lines, "left "+l.Name+": its run still goes on")
		case l.Foreign:
			view.Foreign = append(view.Foreign, l.Name)
			lines = append(lines, "left "+l.Name+": it belongs to the role "+l.Owner)
			if !slices.Contains(owners, l.Owner) {
				owners = append(owners, l.Owner)
			}
		default:
			view.Removed = append(view.Removed, l.Name)
			lines = append(lines, "removed "+l.Name)
		}
	}
	if len(left) == 0 {
		lines = []string{"no run has left anything"}
	}
	if a.flags.json {
		err = a.printJSON(view)
	} else {
		err = a.printf("%s\n", strings.Join(lines, "\n"))
	}
	if len(owners) > 0 {
		err = errors.Join(err, notOurs(len(view.Foreign), owners))
	}
	return err
}

// notOurs is the error for n places that belong to these roles.
func notOurs(n int, owners []string) error {
	text := "it takes the rights of their owner"
	if n == 1 {
		text = "it takes the rights of its owner"
	}
	slices.Sort(owners)
	return (&problem{err: fmt.Errorf("%s not removed: %s", plural(n, "schema was", "schemas were"), text), code: "refused", exit: exitFailed}).
		next("run `later bench --clean` as %s, or as a superuser", strings.Join(owners, " and as "))
}

// cleanCommand is what a person types to remove what a run has left in this database.
func (a *App) cleanCommand() string {
	if a.flags.dbSource != "--db" {
		return "later bench --clean"
	}
	return "later bench --clean --db '" + open.Redact(a.flags.db) + "'"
}
