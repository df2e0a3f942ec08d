package postgres

import (
	"testing"
	"time"

	"github.com/later-queue/later"
)

// A limit that was full when it was read is not, once a place has been freed meanwhile.
func TestHoldingForgetsNoEnd(t *testing.T) {
	full := later.Scope{Of: later.ScopeTenant, Name: "full"}
	other := later.Scope{Of: later.ScopeTenant, Name: "other"}
	ended := []later.Settlement{{Lease: later.Lease{ID: 1}}}
	for _, c := range []struct {
		behaviour string
		of        later.Scope // the job that ends between the look and what is noted of it
		want      bool
	}{
		{"an end of its own opens it", full, false},
		{"an end of another does not", other, true},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			h := &holding{}
			h.started(2, []later.Scope{other})
			h.ended([]later.Settlement{{Lease: later.Lease{ID: 2}}})
			h.started(1, []later.Scope{c.of})
			seen := h.counted()
			h.ended(ended)
			h.close(full, time.Minute, seen)
			if _, got := h.isClosed(full); got != c.want {
				t.Errorf("closed: got %v, want %v", got, c.want)
			}
			h.close(full, time.Minute, h.counted())
			if _, got := h.isClosed(full); !got {
				t.Error("closed as seen after the end: got false, want true")
			}
		})
	}

	t.Run("of more scopes than are remembered any may have been freed", func(t *testing.T) {
		h := &holding{}
		seen := h.counted()
		for id := int64(1); id <= maxLanes+2; id++ {
			h.started(id, []later.Scope{{Of: later.ScopeQueue, Name: time.Duration(id).String()}})
			h.ended([]later.Settlement{{Lease: later.Lease{ID: id}}})
		}
		h.close(full, time.Minute, seen)
		if _, got := h.isClosed(full); got {
			t.Error("closed: got true, want false")
		}
	})
}
