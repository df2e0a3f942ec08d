package sqlite

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/later-queue/later"
)

// ring goes once through the tenants of a level, beginning with the one whose turn it is.
type ring struct {
	d       *dealing
	level   level
	walk    walk
	begun   turnMark             // the turn that is to go on; had is 0 if there is none
	special map[string][]special // by tenant
	left    []stretch            // of tenants, of which it has not been
	alone   bool                 // the level has one tenant, which is in no list
	seen    map[string]bool      // nil until there may be one twice
}

// stretch is all tenants from first to last, which is nil for the end.
type stretch struct {
	first string
	last  any
}

func (d *dealing) ring(l level, key turnKey) (*ring, error) {
	r := &ring{d: d, level: l, special: map[string][]special{}, seen: map[string]bool{}}
	for _, one := range d.special {
		if one.priority == l.priority {
			r.special[one.tenant] = append(r.special[one.tenant], one)
		}
	}
	mark, marked := d.s.turns.latest(key)
	switch {
	case !marked:
		r.left = []stretch{{"", nil}}
	case mark.had > 0 && mark.had < d.adm.limits.Weight(mark.tenant):
		r.begun = mark
		r.left = []stretch{{mark.tenant, nil}, {"", mark.tenant}}
	default: // no tenant is between a name and the same name with a NUL
		r.left = []stretch{{mark.tenant + "\x00", nil}, {"", mark.tenant}}
	}
	if !l.shared {
		r.alone = true
		return r, nil
	}
	kinds, err := json.Marshal(l.kinds)
	if err != nil {
		return nil, err
	}
	r.walk, err = d.s.walkLevel(d.tx, l, string(kinds), d.names(), d.now)
	return r, err
}

// next returns lanes of about n tenants that come next, without those that are held back, and
// whether there may be more.
func (r *ring) next(n int) (lanes []*lane, more bool, err error) {
	if len(r.left) == 0 {
		return nil, false, nil
	}
	turns, err := r.read(n)
	if err != nil {
		return nil, false, err
	}
	part := r.left[0]
	if ended := len(turns) < n; ended {
		r.left = r.left[1:]
	} else {
		last := turns[len(turns)-1].tenant
		part.last = last
		r.left[0].first = last + "\x00"
	}
	for tenant := range r.special {
		if tenant >= part.first && (part.last == nil || tenant <= part.last.(string)) &&
			!slices.ContainsFunc(turns, func(t turn) bool { return t.tenant == tenant }) {
			turns = append(turns, turn{tenant: tenant})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.tenant, b.tenant) })
	lanes, err = r.lanes(turns)
	return lanes, len(r.left) > 0, err
}

// read returns at most n tenants of the stretch at hand that have jobs of kinds that are open.
func (r *ring) read(n int) ([]turn, error) {
	open := r.d.open()
	open = slices.DeleteFunc(open, func(kind string) bool { return !slices.Contains(r.level.kinds, kind) })
	if len(open) == 0 {
		return nil, nil
	}
	part := r.left[0]
	if r.alone {
		tenant := r.level.tenant
		if tenant < part.first || part.last != nil && tenant > part.last.(string) || !r.d.wants(tenant) {
			return nil, nil
		}
		return []turn{{tenant: tenant}}, nil
	}
	kinds, err := json.Marshal(open)
	if err != nil {
		return nil, err
	}
	r.walk.kinds = string(kinds)
	return r.walk.between(part.first, part.last, n, 1)
}

// lanes are those of tenants that are not held back, or have jobs all the same that may start.
func (r *ring) lanes(turns []turn) ([]*lane, error) {
	d := r.d
	turns = slices.DeleteFunc(turns, func(t turn) bool { return r.seen[t.tenant] })
	names := make([]string, len(turns))
	for i, t := range turns {
		names[i], r.seen[t.tenant] = t.tenant, true
	}
	if err := d.adm.load(later.ScopeTenant, names...); err != nil {
		return nil, err
	}
	if err := r.readHeads(names); err != nil {
		return nil, err
	}
	var lanes []*lane
	for _, t := range turns {
		one := &lane{tenant: t.tenant, special: r.special[t.tenant]}
		if r.begun.had > 0 && r.begun.tenant == t.tenant {
			one.had = r.begun.had
		}
		level := r.level
		level.tenant = t.tenant
		g := d.adm.gate(later.ScopeTenant, t.tenant)
		switch {
		case d.adm.closed(g):
			any := slices.ContainsFunc(t.jobs, func(c candidate) bool { return !d.isSpecial(c.id) })
			if r.alone && len(r.level.kinds) > 0 {
				var err error
				if any, err = d.hasAny(r.level); err != nil {
					return nil, err
				}
			}
			if any {
				d.adm.note(g)
			}
		case r.alone:
			for _, kind := range level.kinds {
				one.heads = append(one.heads, unread(level, kind))
			}
		default:
			one.heads = headsOf(level, t.jobs)
		}
		if len(one.heads) > 0 || len(one.special) > 0 {
			lanes = append(lanes, one)
		}
	}
	return lanes, nil
}

// headsOf are the parts of a lane of which the first job of each kind has been read: of the
// others there is none.
func headsOf(l level, jobs []candidate) []kindHead {
	heads := make([]kindHead, len(jobs))
	for i, c := range jobs {
		heads[i] = kindHead{level: l, kind: c.kind, rows: []candidate{c}, last: c}
	}
	return heads
}

// readHeads adds the heads of tenants to the special jobs of the level.
func (r *ring) readHeads(tenants []string) error {
	d := r.d
	var ids []int64
	for _, tenant := range tenants {
		ids = d.heads(ids, d.adm.gate(later.ScopeTenant, tenant))
	}
	ids = slices.DeleteFunc(ids, d.isSpecial)
	list, err := d.readSpecial(ids, false)
	if err != nil {
		return err
	}
	for _, one := range list {
		if one.priority == r.level.priority {
			r.special[one.tenant] = append(r.special[one.tenant], one)
			slices.SortFunc(r.special[one.tenant], func(a, b special) int {
				return cmp.Or(cmp.Compare(a.runAt, b.runAt), cmp.Compare(a.id, b.id))
			})
			d.special = append(d.special, one)
		}
	}
	return nil
}

// isSpecial reports whether a job has been read by its id.
func (d *dealing) isSpecial(id int64) bool {
	return slices.ContainsFunc(d.special, func(one special) bool { return one.id == id })
}
