package worker

import "github.com/later-queue/later"

// kindSlots counts what this process has of the kinds that have a bound of their own
// ([Config.KindSlots]). The zero value bounds none. Its owner locks it.
type kindSlots struct {
	kinds map[string]*kindShare
	// all: every kind of the worker has a bound.
	all bool
}

type kindShare struct {
	slots int
	held  int // jobs that run, wait for a slot, or wait for their hooks
	asked int // those that the claim under way may bring
	// abandoned of the held ones may never end.
	abandoned int
	// more: a claim brought as many as it might, so there may be more.
	more bool
	// sought: a sweep under way may bring one. owed: the latest sweep could not ask for a
	// suspect of this kind, so the next place is for one.
	sought, owed bool
}

func newKindSlots(bounds map[string]int, kinds []string) kindSlots {
	k := kindSlots{all: len(bounds) == len(kinds)}
	if len(bounds) > 0 {
		k.kinds = map[string]*kindShare{}
	}
	for kind, slots := range bounds {
		k.kinds[kind] = &kindShare{slots: slots, more: true}
	}
	return k
}

// places are the places that nobody has or may get.
func (s *kindShare) places() int { return s.slots - s.held - s.asked }

// room is how many jobs a claim may bring: one place is kept for a suspect.
func (s *kindShare) room() int {
	room := s.places()
	if s.sought || s.owed {
		room--
	}
	return max(room, 0)
}

// total is how many jobs a claim may bring of all kinds together, at most limit.
func (k *kindSlots) total(limit int) int {
	if !k.all {
		return limit
	}
	n := 0
	for _, s := range k.kinds {
		n += s.room()
	}
	return min(n, limit)
}

// ask returns how many jobs of each kind a claim may bring, and keeps places for them until
// answered.
func (k *kindSlots) ask() map[string]int {
	if k.kinds == nil {
		return nil
	}
	most := make(map[string]int, len(k.kinds))
	for kind, s := range k.kinds {
		s.asked = s.room()
		most[kind] = s.asked
	}
	return most
}

// answered ends what ask began, after the jobs of the answer were held, or without one. again
// says that a kind has got room meanwhile of which there may be more jobs.
func (k *kindSlots) answered(jobs []*later.Claimed, ok bool) (again bool) {
	if k.kinds == nil {
		return false
	}
	got := map[string]int{}
	for _, c := range jobs {
		got[c.Kind]++
	}
	for kind, s := range k.kinds {
		if ok {
			s.more = got[kind] >= s.asked
		}
		s.asked = 0
		again = again || s.more && s.room() > 0
	}
	return again
}

// hold counts a job that is to run. It returns false when its kind is full.
func (k *kindSlots) hold(kind string) bool {
	s := k.kinds[kind]
	if s == nil {
		return true
	}
	if s.held >= s.slots {
		return false
	}
	s.held++
	return true
}

// drop counts a job no more. again says that there may be others of its kind, for which there
// is room now; owed, that the room is for a suspect.
func (k *kindSlots) drop(kind string) (again, owed bool) {
	s := k.kinds[kind]
	if s == nil {
		return false, false
	}
	s.held--
	return s.more && s.room() > 0, s.owed
}

// abandon counts handlers that do not return, and returns whether no kind has a place left
// that is not held by one.
func (k *kindSlots) abandon(kind string, by int) (stuck bool) {
	if s := k.kinds[kind]; s != nil {
		s.abandoned += by
	}
	if !k.all {
		return false
	}
	for _, s := range k.kinds {
		if s.abandoned < s.slots {
			return false
		}
	}
	return true
}

// anyFull reports whether jobs of some kind cannot start.
func (k *kindSlots) anyFull() bool {
	for _, s := range k.kinds {
		if s.held >= s.slots {
			return true
		}
	}
	return false
}

// seek returns those of kinds of which a suspect may start, and keeps a place for it until
// found. To the others one is owed.
func (k *kindSlots) seek(kinds []string) []string {
	if k.kinds == nil {
		return kinds
	}
	var sought []string
	for _, kind := range kinds {
		s := k.kinds[kind]
		if s != nil {
			s.sought = s.places() > 0
			s.owed = !s.sought
		}
		if s == nil || s.sought {
			sought = append(sought, kind)
		}
	}
	return sought
}

// seekOwed is seek for the kinds to which it is owed, and leaves the others alone.
func (k *kindSlots) seekOwed() (sought []string) {
	for kind, s := range k.kinds {
		if s.owed && s.places() > 0 {
			s.sought, s.owed = true, false
			sought = append(sought, kind)
		}
	}
	return sought
}

// isOwed reports whether a suspect of some kind may be asked for that could not be before.
func (k *kindSlots) isOwed() bool {
	for _, s := range k.kinds {
		if s.owed && s.places() > 0 {
			return true
		}
	}
	return false
}

// found ends what seek began, after the suspect, if there was one, was held. again is that of
// answered.
func (k *kindSlots) found() (again bool) {
	for _, s := range k.kinds {
		again = again || s.sought && s.more && s.places() > 0
		s.sought = false
	}
	return again
}

// forgive has no suspect owed to any kind. again is that of answered.
func (k *kindSlots) forgive() (again bool) {
	for _, s := range k.kinds {
		again = again || s.owed && s.more && s.places() > 0
		s.owed = false
	}
	return again
}
