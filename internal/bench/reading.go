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
	machineCPU   *int64 // microseconds, of everything that runs on this machine
	cpus         int    // of this machine
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

// readHere returns what is read on this machine.
func readHere() reading {
	r := reading{at: time.Now(), clientCPU: clientCPU()}
	r.machineCPU, r.cpus = machineCPU()
	return r
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
	if saturates := name == Bulk || name == Drain || name == DrainHeld; saturates && r.DurationMS < briefMS {
		r.note("it took only %.0f ms: more jobs give a rate that means more", r.DurationMS)
	}
	r.Cost = costOf(before, after, r.Jobs)
	if n := r.Cost.Others; n != nil && *n > max(othersLimit, r.Jobs/100) {
		r.note("others wrote %d rows meanwhile: WAL, commits and server CPU include that", *n)
	}
	b.report.Phases = append(b.report.Phases, r)
	b.step(Step{Name: string(name), Phase: name, Result: r})
	return nil
}

// briefMS is how long a phase takes at least whose rate is worth something: the
// start of the workers and the end of the last batch are in it. Chosen.
const briefMS = 1000

// othersLimit is how many rows are not worth a note: statistics, vacuum and the
// worker's own housekeeping write a few into the catalogues. Chosen.
const othersLimit = 500

// othersCPULimit is the share of the machine that others may use without a
// warning. Chosen: a desktop that is left alone uses less.
const othersCPULimit = 0.15

// warnOfOthers says how much of this machine other programs have used.
func (r *Report) warnOfOthers() {
	least, most := 1.0, 0.0
	for _, p := range r.Phases {
		if share := p.Cost.OthersCPU; share != nil {
			least, most = min(least, *share), max(most, *share)
		}
	}
	if most > othersCPULimit {
		r.warn("other programs used %.0f%% to %.0f%% of this machine's CPU time during the phases: alone it is faster", 100*least, 100*most)
	}
}

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
		OthersCPU: othersCPU(before, after),
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

// othersCPU is the share of the machine's CPU time that neither this process nor a
// server that can be seen has used.
func othersCPU(before, after reading) *float64 {
	all, ours := grown(before.machineCPU, after.machineCPU), grown(before.clientCPU, after.clientCPU)
	capacity := float64(after.at.Sub(before.at).Microseconds()) * float64(after.cpus)
	if all == nil || ours == nil || capacity <= 0 {
		return nil
	}
	rest := *all - *ours
	if server := grown(before.serverCPU, after.serverCPU); server != nil {
		rest -= *server
	}
	return new(min(1, max(0, float64(rest)/capacity)))
}
