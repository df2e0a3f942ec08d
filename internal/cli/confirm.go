package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/later-queue/later/internal/terminal"
)

// confirm asks before something is destroyed. what says what will be lost.
// Without a terminal nobody can be asked, so --yes must have been given.
func (a *App) confirm(ctx context.Context, yes bool, what string) error {
	if yes {
		return nil
	}
	if !terminal.Is(a.In) || !terminal.Is(a.Err) {
		return usageError("not done: %s", what).next("add --yes to do it without being asked")
	}
	fmt.Fprintf(a.Err, "%s. Type yes to go on: ", terminal.Safe(what))
	answer, err := bufio.NewReader(until(ctx, a.In)).ReadString('\n')
	if err != nil && answer == "" {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return &problem{err: fmt.Errorf("not done"), code: "declined", exit: exitFailed}
	}
	return nil
}
