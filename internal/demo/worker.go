package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
	"github.com/later-queue/later/worker"
)

// WorkerEnv carries the settings of a worker process. A database's URL can hold
// a password, which arguments would show to everybody on the machine.
const WorkerEnv = "LATER_DEMO_WORKER"

// workerSpec is what a worker process is told.
type workerSpec struct {
	Place place
	Name  string
	Mail  string // the service's URL
}

// readyLine is printed by a worker that listens to SIGTERM: before, the signal
// would end it as if it had failed.
const readyLine = "ready"

const (
	// lease is short, so that a killed worker's jobs are soon taken over.
	lease = 2 * time.Second
	// slots is how many jobs a worker process runs at once. Chosen: more than
	// one, so that a kill hits several.
	slots = 4
)

// RunWorker is a worker process of the demo: it works until ctx ends, SIGTERM
// comes or its standard input ends, which it does when the demo is gone, and
// then drains. Ctrl-C is left to the demo itself.
func RunWorker(ctx context.Context) error {
	var spec workerSpec
	if err := json.Unmarshal([]byte(os.Getenv(WorkerEnv)), &spec); err != nil {
		return fmt.Errorf("demo worker: it is started by the demo only: %s: %w", WorkerEnv, err)
	}
	signal.Ignore(os.Interrupt)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end, too
		stop()
	}()

	fmt.Println(readyLine)

	s, err := openShop(ctx, spec.Place)
	if err != nil && ctx.Err() != nil {
		return nil // it was told to end before it had begun
	}
	if err != nil {
		return fmt.Errorf("demo worker: %w", err)
	}
	defer s.Close()
	s.name, s.mail = spec.Name, mailapi.NewClient(spec.Mail, spec.Name)

	handlers := later.NewHandlers()
	later.HandleWith(handlers, later.HandlerConfig{Backoff: backoff}, s.confirm)
	w, err := worker.New(s.store, handlers, worker.Config{
		Name:        spec.Name,
		Concurrency: slots,
		Lease:       lease,
		Poll:        100 * time.Millisecond,
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
		OnDead:      tell,
	})
	if err != nil {
		return fmt.Errorf("demo worker: %w", err)
	}
	return w.Run(ctx)
}

// backoff is far shorter than the default, because nobody wants to watch a demo
// for an hour.
var backoff = later.Backoff{Base: 300 * time.Millisecond, Factor: 2, Cap: 2 * time.Second}

// tell is where an application would call its error tracker. The demo shows
// what a worker prints.
func tell(_ context.Context, f worker.Failure) {
	fmt.Printf("told somebody: job %d is dead (%s): %v\n", f.Job.ID, f.Reason, f.Err)
}
