package mailapi

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// fault is what goes wrong with a call.
type fault int

const (
	faultNone       fault = iota
	faultError            // 500 at once
	faultThrottle         // 429 with Retry-After
	faultLostAnswer       // the mail is written, the answer is 500
	faultLateAnswer       // the mail is written, the answer comes too late
)

// mood is how the service treats one call.
type mood struct {
	fault fault
	work  time.Duration // until it writes or refuses
}

// Chosen: about one call in four fails, and of those a third leaves the caller
// wrong about what happened.
const (
	shareError      = 0.09
	shareThrottle   = 0.08
	shareLostAnswer = 0.05
	shareLateAnswer = 0.03

	fastest    = 120 * time.Millisecond
	slowest    = 600 * time.Millisecond
	lateAnswer = 2 * Patience
)

// moodFor depends on its arguments only.
func moodFor(seed int64, key string, call int) mood {
	hash := fnv.New64a()
	hash.Write([]byte(key)) // never fails (hash.Hash)
	random := rand.New(rand.NewPCG(uint64(seed), hash.Sum64()+uint64(call)))
	m := mood{work: fastest + time.Duration(random.Int64N(int64(slowest-fastest)))}
	dice := random.Float64()
	for _, f := range []struct {
		fault fault
		share float64
	}{
		{faultError, shareError},
		{faultThrottle, shareThrottle},
		{faultLostAnswer, shareLostAnswer},
		{faultLateAnswer, shareLateAnswer},
	} {
		if dice -= f.share; dice < 0 {
			m.fault = f.fault
			return m
		}
	}
	return m
}
