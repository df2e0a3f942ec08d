package course

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later/lab/data"
)

// lightTrack has about 20 jobs of the light tenant in a second, after 100 ms.
func lightTrack(t *testing.T, settings string, backlog int64) *Track {
	light := track(t, settings)
	light.Rate, light.Lead, light.FillJobs = 20, 100*time.Millisecond, backlog
	return light
}

func TestLight(t *testing.T) {
	ctx := context.Background()
	t.Run("alone, all jobs start", func(t *testing.T) {
		var r data.Round
		if err := Light(ctx, lightTrack(t, "defaults", 0), &r); err != nil {
			t.Fatal(err)
		}
		if r.Jobs < 1 || r.Jobs > 20 || r.Missing != 0 || r.Backlog != 0 || r.Max > 5e6 || len(r.Points) == 0 {
			t.Errorf("got %+v, want at most 20 jobs, all started, and their distribution", r)
		}
	})
	t.Run("behind a backlog, what does not start counts until the end", func(t *testing.T) {
		var r data.Round
		// A millisecond a job: five times as long as the second, the lead and the rest.
		if err := Light(ctx, lightTrack(t, "slow", 15_000), &r); err != nil {
			t.Fatal(err)
		}
		if r.Missing < 1 || r.Missing > 20 || r.Backlog != 15_000 || r.Jobs < 100 || r.Rate != float64(r.Jobs)/r.Seconds {
			t.Errorf("got %+v, want none of the light tenant's jobs started, and the rate of the heavy one's", r)
		}
		if least := float64(lightAfterwards.Microseconds()); r.P50 < least || r.Max > least+10e6 {
			t.Errorf("got %+v, want at least %v µs, the time until the workers were stopped", r, least)
		}
	})
	t.Run("beside a backlog, a tenant that has its turn waits for no other, and is told from it", func(t *testing.T) {
		var r data.Round
		if err := Light(ctx, lightTrack(t, "fair", 15_000), &r); err != nil {
			t.Fatal(err)
		}
		if r.Missing != 0 || r.Jobs < 100 || r.P50 >= float64(lightAfterwards.Microseconds()) {
			t.Errorf("got %+v, want all of the light tenant's jobs started, beside the heavy one's", r)
		}
		// The heavy tenant's jobs with the same numbers started before the answers: 0 for each.
		if r.Max == 0 {
			t.Errorf("got %+v, want the waits of the light tenant's jobs", r)
		}
	})
	t.Run("a backlog that ends before the race is an error", func(t *testing.T) {
		err := Light(ctx, lightTrack(t, "defaults", 50), &data.Round{})
		if err == nil || !strings.Contains(err.Error(), "the backlog of 50 jobs was over") {
			t.Errorf("got %v, want that the backlog was over", err)
		}
	})
}
