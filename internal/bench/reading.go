package bench

import (
	"context"
	"time"
)

// reading are counters at one moment; nil is one that cannot be known. All but
// those that say otherwise only grow.
type reading struct {
	at           time.Time
	serverCPU    *int64 // microseconds
	clientCPU    *int64 // microseconds
	wal          *int64 // bytes
	fullPages    *int64
	commits      *int64
	updates, hot *int64 // of the job table
	vacuums      *int64
	others       *int64 // rows
	written      *int64 // bytes
	deadRows     *int64 // now
	tableSize    *int64 // bytes, now
	walFile      *int64 // bytes, now
}

// measure runs a phase between two readings. Phase fills in what the readings do
// not tell, the number of jobs among it.
func (b *bench) measure(ctx context.Context, name Phase, phase func(r *Result) error) error {
	before, err := b.place.read(ctx)
	if err != nil {
		return err
	}
	r := &Result{Name: name, SnapshotHeld: b.release != nil, Notes: []string{}}
	if err := phase(r); err != nil {
		return err
	}
	after, err := b.place.read(ctx)
	if err != nil {
		return err
	}
	if r.DurationMS > 0 {
		r.Rate = float64(r.Jobs) / r.DurationMS * 1000
	}
	r.Cost = costOf(before, after, r.Jobs)
	if n := r.Cost.Others; n != nil && *n > max(othersLimit, r.Jobs/100) {
		r.note("others wrote %d rows meanwhile: WAL, commits and server CPU include that", *n)
	}
	b.report.Phases = append(b.report.Phases, r)
	b.step(Step{Name: string(name), Phase: name, Result: r})
	return nil
}

// othersLimit is how many rows are not worth a note: statistics, vacuum and the
// worker's own housekeeping write a few into the catalogues. Chosen.
const othersLimit = 500

func costOf(before, after reading, jobs int64) Cost {
	return Cost{
		ServerCPU: per(grown(before.serverCPU, after.serverCPU), jobs),
		ClientCPU: per(grown(before.clientCPU, after.clientCPU), jobs),
		WAL:       per(grown(before.wal, after.wal), jobs),
		FullPages: grown(before.fullPages, after.fullPages),
		Commits:   per(grown(before.commits, after.commits), jobs),
		HOT:       share(grown(before.hot, after.hot), grown(before.updates, after.updates)),
		Vacuums:   grown(before.vacuums, after.vacuums),
		Others:    grown(before.others, after.others),
		Written:   per(grown(before.written, after.written), jobs),
		DeadRows:  after.deadRows,
		TableSize: after.tableSize,
		WALFile:   after.walFile,
	}
}

// grown is how much more a counter has; never less than nothing, because
// counters are reset.
func grown(before, after *int64) *int64 {
	if before == nil || after == nil {
		return nil
	}
	return new(max(0, *after-*before))
}

func per(n *int64, jobs int64) *float64 {
	if n == nil || jobs == 0 {
		return nil
	}
	return new(float64(*n) / float64(jobs))
}

func share(part, whole *int64) *float64 {
	if part == nil || whole == nil || *whole == 0 {
		return nil
	}
	return new(float64(*part) / float64(*whole))
}
