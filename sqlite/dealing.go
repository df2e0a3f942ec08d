package sqlite

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/later-queue/later"
)

// dealing is a claim of one queue in which gates, weights or bounds of kinds have a say. What
// they hold back it leaves out of what it reads: kinds and tenants as a whole, so that it reads
// none of the jobs that wait there.
//
// What may start although its scope is full it reads by its id: see [special].
type dealing struct {
	s          *Store
	tx         transaction
	adm        *admission
	queue      string
	key        string   // of the turns: see turnKey
	kinds      []string // that are wanted and not paused
	tenants    []string // the only ones that are wanted; nil: all
	paused     []string // tenants
	fromLowest bool
	limit      int
	budget     *budget
	now        int64

	special []special
	given   []int64
	last    turnMark // of the level at hand
	gave    bool     // something of the level at hand
}

// special is a job that may start although its scope is full: a head, or one that a claim has
// leased whose answer was lost.
type special struct {
	candidate
	tenant   string
	priority int64
}

// selectSpecial reads which of some jobs may be claimed. Parameters: queue, kinds as JSON,
// names as JSON or null, now, SuspectCrashes, ids as JSON, whether they may be leased.
const selectSpecial = `
select j.id, j.run_at, j.kind, octet_length(j.payload), j.tenant, j.priority
from json_each(?6) wanted
cross join later_job j on j.id = wanted.value
where j.queue = ?1
  and j.kind in (select value from json_each(?2))
  and (?3 is null or j.tenant in (select cast(unhex(value) as text) from json_each(?3)))
  and j.run_at <= ?4
  and (` + isClaimable + ` or ?7 and j.cancel_at is null and (j.expires_at is null or j.expires_at > ?4))
  and not exists (
    select 1 from later_gate g where g.scope = 'tenant' and g.name = j.tenant and g.paused_at is not null)
order by j.priority, j.run_at, j.id`

// jobs returns the jobs that may be claimed; all gates know of them.
func (d *dealing) jobs() ([]*claimedRow, error) {
	err := d.adm.load(later.ScopeQueue, d.queue)
	if err == nil {
		err = d.adm.load(later.ScopeKind, d.kinds...)
	}
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, kind := range d.kinds {
		ids = d.heads(ids, d.adm.gate(later.ScopeKind, kind))
	}
	ids = d.heads(ids, d.adm.gate(later.ScopeQueue, d.queue))
	if d.special, err = d.readSpecial(ids, false); err != nil {
		return nil, err
	}
	again, err := d.readSpecial(slices.Sorted(maps.Keys(d.adm.again)), true)
	if err != nil {
		return nil, err
	}
	d.special = append(d.special, again...)
	levels, err := d.levels()
	if err != nil {
		return nil, err
	}
	for _, l := range levels {
		if !d.room() {
			break
		}
		if err := d.deal(l); err != nil {
			return nil, err
		}
	}
	if len(d.given) == 0 {
		return nil, nil
	}
	if err := d.giveBack(); err != nil {
		return nil, err
	}
	return readByID(d.tx, d.given)
}

// room reports whether more jobs are wanted.
func (d *dealing) room() bool { return len(d.given) < d.limit && !d.budget.spent() }

// names are tenants as statements want them; nil for all.
func (d *dealing) names() any {
	if d.tenants == nil {
		return nil
	}
	return jsonNames(d.tenants)
}

// wants reports whether a tenant's jobs are wanted.
func (d *dealing) wants(tenant string) bool {
	return !slices.Contains(d.paused, tenant) && (d.tenants == nil || slices.Contains(d.tenants, tenant))
}

// likely is how many more jobs there may be at most, and so of how many tenants.
func (d *dealing) likely() int {
	n := d.limit - len(d.given)
	if g := d.adm.gate(later.ScopeQueue, d.queue); g != nil {
		n = min(n, g.Room(toTime(d.now)), d.adm.free)
	}
	return max(n, 1)
}

// heads adds to ids the heads of a gate that are due.
func (d *dealing) heads(ids []int64, g *gateState) []int64 {
	if g == nil || len(g.busy) > 0 {
		return ids
	}
	for _, h := range g.heads {
		if !h.dead && h.runAt <= d.now {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// giveBack frees those of the given jobs that are leased by a claim whose answer was lost.
func (d *dealing) giveBack() error {
	var ids []int64
	for _, id := range d.given {
		if _, again := d.adm.again[id]; again {
			ids = append(ids, id)
			delete(d.adm.again, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := d.tx.exec(updateGivenBack, jsonIDs(ids))
	return err
}

func (d *dealing) readSpecial(ids []int64, leased bool) ([]special, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	kinds, err := json.Marshal(d.kinds)
	if err != nil {
		return nil, err
	}
	rows, err := d.tx.query(selectSpecial, d.queue, string(kinds), d.names(), d.now, later.SuspectCrashes, jsonIDs(ids), leased)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []special
	for rows.Next() {
		var one special
		if err := rows.Scan(&one.id, &one.runAt, &one.kind, &one.bytes, &one.tenant, &one.priority); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// open are the kinds whose jobs may start now.
func (d *dealing) open() []string {
	if d.adm.closed(d.adm.gate(later.ScopeQueue, d.queue)) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.kinds), func(kind string) bool { return !d.adm.wants(kind) })
}

// levels are those with something to look at, in the order of the claim.
func (d *dealing) levels() (levels []level, err error) {
	if open := d.open(); len(open) > 0 {
		kinds, err := json.Marshal(open)
		if err != nil {
			return nil, err
		}
		if levels, err = readLevels(d.tx, d.queue, string(kinds), d.now); err != nil {
			return nil, err
		}
	}
	for _, one := range d.special {
		at, found := slices.BinarySearchFunc(levels, one.priority, func(l level, p int64) int { return int(l.priority - p) })
		if !found {
			levels = slices.Insert(levels, at, level{queue: d.queue, priority: one.priority, tenant: one.tenant})
		}
	}
	if d.fromLowest {
		slices.Reverse(levels)
	}
	return levels, nil
}

// deal gives jobs of a level: the tenants take turns, of as many jobs as they weigh, until no
// more are wanted or none is left.
func (d *dealing) deal(l level) error {
	key := turnKey{d.queue, d.key, l.priority}
	r, err := d.ring(l, key)
	if err != nil {
		return err
	}
	d.last, d.gave = turnMark{}, false
	share := 1
	if r.alone {
		share = d.limit - len(d.given)
	}
	var lanes []*lane // that may have more
	for n := d.likely(); d.room(); {
		fresh, more, err := r.next(n)
		if err != nil {
			return err
		}
		before := len(d.given)
		for _, one := range fresh {
			left, err := d.turn(one, share)
			if err != nil {
				return err
			}
			if left {
				lanes = append(lanes, one)
			}
			if !d.room() {
				break
			}
		}
		if !more {
			break
		}
		if len(d.given) == before { // all of them are held back
			n = min(2*n, maxFresh)
		} else {
			n = d.likely()
		}
	}
	for len(lanes) > 0 && d.room() {
		share = (d.limit-len(d.given))/len(lanes) + 1
		left := lanes[:0]
		for _, one := range lanes {
			if !d.room() {
				break
			}
			more, err := d.turn(one, share)
			if err != nil {
				return err
			}
			if more {
				left = append(left, one)
			}
		}
		lanes = left
	}
	if d.gave {
		d.s.turns.ended(key, d.last)
	}
	return nil
}

// maxFresh is how many tenants are looked at together at most. Chosen: beyond it a statement
// more does not count.
const maxFresh = 1000

// turn gives a tenant its turn, and reports whether it may have more. share is how many of its
// jobs are worth reading.
func (d *dealing) turn(one *lane, share int) (more bool, err error) {
	weight := d.adm.limits.Weight(one.tenant)
	if one.had >= weight {
		one.had = 0
	}
	for one.had < weight && d.room() {
		job, ok, err := d.next(one, max(share, weight-one.had))
		if err != nil {
			return false, err
		}
		if !ok {
			// A turn that something else than the tenant itself cut short goes on later.
			if one.ended() && d.gave && d.last.tenant == one.tenant {
				d.last.had = 0
			}
			return false, nil
		}
		d.adm.let(job.id, d.queue, job.kind, one.tenant)
		d.budget.spend(job.bytes)
		d.given, d.gave = append(d.given, job.id), true
		one.had++
		d.last = turnMark{tenant: one.tenant, had: one.had % weight}
	}
	return true, nil
}

// next is the next job of a lane that may start.
func (d *dealing) next(one *lane, share int) (candidate, bool, error) {
	share = min(share, d.limit-len(d.given))
	if g := d.adm.gate(later.ScopeTenant, one.tenant); g != nil {
		share = min(share, max(g.Room(toTime(d.now)), 1))
	}
	for {
		job, found, err := one.pop(d.tx, share, d.now)
		if err != nil || !found {
			return candidate{}, false, err
		}
		if d.isSpecial(job.id) && slices.Contains(d.given, job.id) {
			continue
		}
		if job.special {
			if d.adm.lets(job.id, d.queue, job.kind, one.tenant) {
				return job.candidate, true, nil
			}
			d.adm.noteHead(job.id, d.queue, job.kind, one.tenant)
			continue
		}
		switch {
		case d.adm.closed(d.adm.gate(later.ScopeQueue, d.queue)):
			one.heads, one.cut = nil, true
		case d.adm.closed(d.adm.gate(later.ScopeTenant, one.tenant)):
			d.adm.note(d.adm.over(d.queue, job.kind, one.tenant)...)
			one.heads = nil
		case !d.adm.wants(job.kind):
			one.drop(job.kind)
		default:
			return job.candidate, true, nil
		}
	}
}
