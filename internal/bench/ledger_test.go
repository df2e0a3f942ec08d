package bench

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/later-queue/later"
)

func TestLatency(t *testing.T) {
	samples := func(n int) []int64 {
		var all []int64
		for i := n; i > 0; i-- { // the wrong way round
			all = append(all, int64(i)*int64(time.Millisecond))
		}
		return all
	}
	for _, c := range []struct {
		n    int
		want *Latency
	}{
		{0, nil},
		{1, &Latency{Samples: 1, P50: 1, P90: 1, P99: 1, Max: 1}},
		{2, &Latency{Samples: 2, P50: 1, P90: 2, P99: 2, Max: 2}},
		{100, &Latency{Samples: 100, P50: 50, P90: 90, P99: 99, Max: 100}},
		{101, &Latency{Samples: 101, P50: 51, P90: 91, P99: 100, Max: 101}},
		{1000, &Latency{Samples: 1000, P50: 500, P90: 900, P99: 990, Max: 1000}},
	} {
		if got := latencyOf(samples(c.n)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("of %d: got %+v, want %+v", c.n, got, c.want)
		}
	}
}

func TestLedger(t *testing.T) {
	t.Run("counts each job once, and what comes again", func(t *testing.T) {
		l := newLedger(1000, false)
		var starting sync.WaitGroup
		for range 4 {
			starting.Go(func() {
				for seq := range 1000 {
					l.start(seq)
				}
			})
		}
		starting.Wait()
		l.start(-1)
		l.start(5000)
		if l.count.Load() != 1000 || l.repeated.Load() != 3000 || l.strange.Load() != 2 {
			t.Errorf("got %d, %d again and %d strange, want 1000, 3000 and 2", l.count.Load(), l.repeated.Load(), l.strange.Load())
		}
	})
	t.Run("takes the first start, and none before the enqueue's end", func(t *testing.T) {
		l := newLedger(2, true)
		l.start(0) // before its enqueue has returned
		l.ack(0, time.Now())
		l.acked[1] = 1
		l.started[1].Store(3_000_001)
		l.seen[0].Or(2)
		l.start(1)
		if got := l.starts(2); got.P50 != 0 || got.Max != 3 {
			t.Errorf("got %+v, want 0 and 3 ms", got)
		}
	})
}

func TestWork(t *testing.T) {
	for _, size := range []int{MinPayload, DefaultPayload, 5000} {
		cfg, err := Config{Payload: size, Kinds: 3, Tenants: 2, Priorities: 2}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		w := newWork(cfg)
		kinds, tenants, priorities := map[string]bool{}, map[string]bool{}, map[int16]bool{}
		for _, seq := range []int{0, 1, 2, 3, 9, 10, 4095, 4096, MaxJobs - 1} {
			job, err := later.Build(w.request(seq).Args, w.request(seq).Options)
			if err != nil {
				t.Fatal(err)
			}
			var payload struct {
				Seq  int    `json:"seq"`
				Text string `json:"text"`
			}
			if err := json.Unmarshal(job.Payload, &payload); err != nil || payload.Seq != seq || len(job.Payload) != size {
				t.Errorf("got %s, %v, want the number %d in %d bytes", job.Payload, err, seq, size)
			}
			if got := seqOf(job.Payload); got != seq {
				t.Errorf("got %d, want %d", got, seq)
			}
			kinds[job.Kind], tenants[job.Tenant], priorities[job.Priority] = true, true, true
		}
		if got := fmt.Sprint(len(kinds), len(tenants), len(priorities)); got != "3 2 2" {
			t.Errorf("got %s kinds, tenants and priorities, want 3 2 2", got)
		}
		if got := w.waiting(0).Args.Kind(); got != waitingKind || kinds[waitingKind] {
			t.Errorf("got %q, want a kind that nobody does", got)
		}
	}
	for _, strange := range []string{"", "{}", `{"seq":`, `{"seq":x}`, `{"seq":12`, `{"num":1}`} {
		if got := seqOf([]byte(strange)); got != -1 {
			t.Errorf("%s: got %d, want -1", strange, got)
		}
	}
}
