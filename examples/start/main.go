package main

import (
	"context"
	"errors"
	"log"

	"github.com/later-queue/later"
	"github.com/later-queue/later/sqlite"
	"github.com/later-queue/later/worker"
)

type Welcome struct{ Email string }

func (Welcome) Kind() string { return "welcome" }

func main() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, "later.db", sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}
	handlers := later.NewHandlers()
	later.Handle(handlers, func(ctx context.Context, job *later.Job[Welcome]) error {
		log.Println("a mail to", job.Payload.Email)
		return nil
	})
	w, err := worker.New(store, handlers, worker.Config{})
	_, enqueueErr := store.Enqueue(ctx, Welcome{"ann@example.com"}, later.Options{})
	if err := errors.Join(err, enqueueErr); err != nil {
		log.Fatal(err)
	}
	log.Fatal(w.Run(ctx))
}
