package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
)

// Most tests look at what happens at once.
func init() { startSpread = 0 }

// checked is a store that notes when it was first asked.
type checked struct {
	*memory.Store
	at time.Time
}

func (s *checked) CheckSchema(ctx context.Context) error {
	s.at = time.Now()
	return s.Store.CheckSchema(ctx)
}

func TestStart(t *testing.T) {
	handlers := later.NewHandlers()
	later.HandleRaw(handlers, "k", later.HandlerConfig{}, func(context.Context, *later.Job[json.RawMessage]) error { return nil })
	t.Run("workers that start together do not ask together, nor visibly late", func(t *testing.T) {
		// Case 145.
		synctest.Test(t, func(t *testing.T) {
			startSpread = 100 * time.Millisecond
			defer func() { startSpread = 0 }()
			begin := time.Now()
			waits := map[time.Duration]bool{}
			var stops []func() error
			var stores []*checked
			for range 40 {
				s := &checked{Store: memory.New()}
				w, err := New(s, handlers, Config{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				go w.Run(t.Context())
				stores = append(stores, s)
				stops = append(stops, func() error { return w.Stop(t.Context()) })
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			for _, s := range stores {
				wait := s.at.Sub(begin)
				waits[wait] = true
				if s.at.IsZero() || wait > 100*time.Millisecond {
					t.Errorf("got the first question after %v, want at most 100 ms", wait)
				}
			}
			if len(waits) < 30 {
				t.Errorf("got %d different waits of 40, want them spread", len(waits))
			}
			for _, stop := range stops {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
		})
	})
}
