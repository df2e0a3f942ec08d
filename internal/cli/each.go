package cli

import (
	"context"
	"fmt"
)

// resultView is what became of one id, with --json.
type resultView struct {
	ID    string `json:"id"`
	OK    bool   `json:"ok"`
	Text  string `json:"text,omitempty"` // what happened
	Fault any    `json:"error,omitempty"`
}

// each does something to each of several jobs. One that fails does not keep the
// others from it; the exit code is that of the first failure. A database that
// is gone ends it.
func (a *App) each(ctx context.Context, ids []int64, do func(ctx context.Context, id int64) (text string, err error)) error {
	results := []resultView{}
	for _, id := range ids {
		text, err := do(ctx, id)
		if err == nil {
			results = append(results, resultView{ID: formatID(id), OK: true, Text: text})
			if !a.flags.json {
				if err := a.printf("%d %s\n", id, text); err != nil {
					return err
				}
			}
			continue
		}
		p := classify(err, a.flags.db)
		if a.exit == 0 {
			a.exit = p.exit
		}
		results = append(results, resultView{ID: formatID(id), Fault: viewProblem(p).Error})
		if !a.flags.json {
			a.printProblem(p)
		}
		if p.exit == exitUnavailable || ctx.Err() != nil {
			break
		}
	}
	if !a.flags.json {
		if done := len(results); done < len(ids) {
			return fmt.Errorf("stopped: nothing was done to the other %s", plural(len(ids)-done, "job", "jobs"))
		}
		return nil
	}
	return a.printJSON(struct {
		Results []resultView `json:"results"`
	}{results})
}
