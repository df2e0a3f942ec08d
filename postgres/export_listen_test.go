package postgres

import "time"

// SetProof has a store try often, and for long, whether it hears. Call it before the
// first Waiting.
func (s *Store) SetProof(every, patience time.Duration) {
	s.ear.proofEvery, s.ear.proofTime = every, patience
}
