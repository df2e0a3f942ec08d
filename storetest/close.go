package storetest

import (
	"testing"

	"github.com/later-queue/later"
)

func testClose(t *testing.T, open Open) {
	t.Run("every call after Close is refused, and a second Close does nothing", func(t *testing.T) {
		w := newWorld(t, open)
		w.enqueue(later.Options{})
		lease := w.claimOne().Lease
		for range 2 {
			if err := w.store.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
		}
		job, err := later.Build(raw(`{}`), later.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []struct {
			name string
			do   func() error
		}{
			{"Insert", func() error { _, err := w.store.Insert(w.ctx, []later.NewJob{job}); return err }},
			{"Claim", func() error { _, err := w.store.Claim(w.ctx, ask(1)); return err }},
			{"NextDue", func() error { _, _, err := w.store.NextDue(w.ctx, []string{queue}, []string{kind}); return err }},
			{"Sweep", func() error { _, err := w.store.Sweep(w.ctx, seek(1, true)); return err }},
			{"Renew", func() error { _, err := w.store.Renew(w.ctx, []later.Lease{lease}, long); return err }},
			{"CancelRequests", func() error { _, err := w.store.CancelRequests(w.ctx, []later.Lease{lease}); return err }},
			{"Settle", func() error {
				_, err := w.store.Settle(w.ctx, []later.Settlement{{Lease: lease, Outcome: later.OutcomeDone}})
				return err
			}},
			{"Checkpoint", func() error { return w.store.Checkpoint(w.ctx, lease, []byte(`{}`)) }},
			{"Beat", func() error { return w.store.Beat(w.ctx, later.WorkerInfo{Name: worker}) }},
			{"Leave", func() error { return w.store.Leave(w.ctx, worker) }},
			{"Maintain", func() error { return w.store.Maintain(w.ctx) }},
			{"Status", func() error { _, err := w.store.Status(w.ctx); return err }},
			{"Find", func() error { _, err := w.store.Find(w.ctx, lease.ID); return err }},
			{"List", func() error { _, err := w.store.List(w.ctx, later.Filter{}); return err }},
			{"Retry", func() error { return w.store.Retry(w.ctx, lease.ID) }},
			{"Cancel", func() error { _, err := w.store.Cancel(w.ctx, lease.ID); return err }},
			{"Delete", func() error { return w.store.Delete(w.ctx, lease.ID) }},
			{"RetryDead", func() error { _, err := w.store.RetryDead(w.ctx, later.Filter{}); return err }},
			{"DropDead", func() error { _, err := w.store.DropDead(w.ctx, later.Filter{}); return err }},
			{"Workers", func() error { _, err := w.store.Workers(w.ctx); return err }},
			{"Migrate", func() error { return w.store.Migrate(w.ctx) }},
			{"CheckSchema", func() error { return w.store.CheckSchema(w.ctx) }},
		} {
			isError(t, call.name, call.do(), later.ErrClosed)
		}
	})
}
