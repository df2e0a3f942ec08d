// Command later enqueues, runs and looks after background jobs. See later
// --help.
package main

import (
	"context"
	"os"

	"github.com/later-queue/later/internal/cli"
)

func main() {
	os.Exit(new(cli.App).Run(context.Background(), os.Args[1:]))
}
