package sqlite

import (
	"encoding/json"

	"github.com/later-queue/later"
)

// met notes what the queue or kinds hold back, once what was given has been leased. (What a
// tenant holds back is noted where it is met.)
func (d *dealing) met() error {
	if !d.room() {
		return nil
	}
	if g := d.adm.gate(later.ScopeQueue, d.queue); g != nil && g.Room(toTime(d.now)) <= 0 {
		return d.noteAny(d.kinds, g)
	}
	var kinds []string
	var gates []*gateState
	for _, kind := range d.kinds {
		if g := d.adm.gate(later.ScopeKind, kind); g != nil && g.Room(toTime(d.now)) <= 0 {
			kinds, gates = append(kinds, kind), append(gates, g)
		}
	}
	return d.noteAny(kinds, gates...)
}

// noteAny notes gates, of which each may let a job go, if there is one to be claimed.
func (d *dealing) noteAny(kinds []string, gates ...*gateState) error {
	if len(kinds) == 0 {
		return nil
	}
	list, err := json.Marshal(kinds)
	if err != nil {
		return err
	}
	levels, err := readLevels(d.tx, d.queue, string(list), d.now)
	if err != nil {
		return err
	}
	for _, l := range levels {
		any, err := d.hasAny(l)
		if err != nil {
			return err
		}
		if any {
			for _, g := range gates {
				d.adm.note(g)
			}
			return nil
		}
	}
	return nil
}

// hasAny reports whether a level has a job that may be claimed as far as gates are not concerned.
func (d *dealing) hasAny(l level) (bool, error) {
	if !l.shared {
		if !d.wants(l.tenant) {
			return false, nil
		}
		ids, err := mergeKinds(d.tx, l, 1, nil, d.now)
		return len(ids) > 0, err
	}
	kinds, err := json.Marshal(l.kinds)
	if err != nil {
		return false, err
	}
	w, err := d.s.walkLevel(d.tx, l, string(kinds), d.names(), d.now)
	if err != nil {
		return false, err
	}
	turns, err := w.between("", nil, 1, 1)
	return len(turns) > 0, err
}
