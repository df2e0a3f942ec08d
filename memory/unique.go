package memory

import (
	"maps"
	"time"

	"github.com/later-queue/later"
)

// uniqueKey is a key among the jobs of one tenant and kind.
type uniqueKey struct {
	tenant, kind, key string
}

// keyWindow is a key that is taken until a time, whatever becomes of the job.
type keyWindow struct {
	job int64
	end time.Time
}

func (j *job) uniqueKey() uniqueKey { return uniqueKey{j.Tenant, j.Kind, j.key} }

// takeKey makes j the holder of its key, which nobody holds.
func (s *Store) takeKey(j *job) {
	if j.key != "" {
		s.keys[j.uniqueKey()] = j
	}
}

// freeKey makes j hold no key, though it still knows it.
func (s *Store) freeKey(j *job) {
	if j.key != "" && s.keys[j.uniqueKey()] == j {
		delete(s.keys, j.uniqueKey())
	}
}

// holderOf is who holds the key of a dead job, or nil.
func (s *Store) holderOf(d *deadJob) *job {
	if d.key == "" {
		return nil
	}
	return s.keys[uniqueKey{d.Tenant, d.Kind, d.key}]
}

// insertUnique stores a job, or meets the holder of its key.
func (s *Store) insertUnique(n later.NewJob, now time.Time) later.Enqueued {
	key := uniqueKey{n.Tenant, n.Kind, n.Unique.Key}
	if n.Unique.Until == later.ForWindow {
		return s.insertInWindow(n, key, now)
	}
	holder := s.keys[key]
	if holder != nil && willNotRun(holder, now) {
		s.freeKey(holder)
		holder.key, holder = "", nil
	}
	if holder != nil {
		return s.meet(holder, n, now)
	}
	return later.Enqueued{ID: s.insert(n, now).ID}
}

func (s *Store) insertInWindow(n later.NewJob, key uniqueKey, now time.Time) later.Enqueued {
	w := s.windows[key]
	if w == nil || !w.end.After(now) {
		j := s.insert(n, now)
		s.windows[key] = &keyWindow{job: j.ID, end: n.Unique.WindowEnd(now)}
		return later.Enqueued{ID: j.ID}
	}
	switch holder := s.jobs[w.job]; {
	case holder == nil && s.dead[w.job] != nil:
		return later.Enqueued{ID: w.job, Outcome: later.Skipped, Holder: later.StateDead}
	case holder == nil:
		return later.Enqueued{ID: w.job, Outcome: later.Skipped, Holder: later.StateEnded}
	case willNotRun(holder, now):
		return later.Enqueued{ID: w.job, Outcome: later.Skipped, Holder: stateOf(holder, now)}
	default:
		return s.meet(holder, n, now)
	}
}

// willNotRun reports whether j only waits for being ended: it was cancelled or has
// expired, and does not run, although a sweep may have leased it to end it.
func willNotRun(j *job, now time.Time) bool {
	return (!j.cancelAt.IsZero() || j.expired(now)) && (!j.holds(now) || j.lease.doomed)
}

// meet does to a holder what the request says, if it waits.
func (s *Store) meet(holder *job, n later.NewJob, now time.Time) later.Enqueued {
	met := later.Enqueued{ID: holder.ID, Outcome: later.Skipped, Holder: stateOf(holder, now)}
	if holder.lease != nil {
		return met
	}
	replaced, postponed := n.Unique.OnConflict.Replaces(), false
	if replaced {
		holder.Payload, holder.Headers, holder.Checkpoint = copyBytes(n.Payload), maps.Clone(n.Headers), nil
	}
	if n.Unique.OnConflict.Postpones() {
		runAt, latest := newJob(0, n, now).RunAt, holder.CreatedAt.Add(n.Unique.Latest)
		if latest.Before(runAt) {
			runAt = latest
		}
		if postponed = runAt.After(holder.RunAt); postponed {
			s.move(holder, runAt, now)
		}
	}
	met.Outcome = later.ChangedOutcome(replaced, postponed)
	return met
}

// forgetWindows tidies up the windows that have ended.
func (s *Store) forgetWindows(now time.Time) {
	maps.DeleteFunc(s.windows, func(_ uniqueKey, w *keyWindow) bool { return !w.end.After(now) })
}
