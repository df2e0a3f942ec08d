package sqlite

import (
	"database/sql"
	"math"
	"time"

	"github.com/later-queue/later"
)

// selectNow is the database's clock: milliseconds since 1970.
const selectNow = `select cast(round((julianday('now') - 2440587.5) * 86400000) as integer)`

// lastInstant is the last millisecond before [later.Horizon].
var lastInstant = later.Horizon.UnixMilli() - 1

// millis is t as it is stored: rounded up, so that nothing runs too early.
func millis(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return min(ms, lastInstant)
}

// durationMillis is d rounded up: a lease of 1.5 ms must not hold for 1.
func durationMillis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// after is the instant d after now, and never past the horizon.
func after(now int64, d time.Duration) int64 {
	return min(now+durationMillis(max(d, 0)), lastInstant)
}

func toTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// toOptionalTime is the zero time for null.
func toOptionalTime(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return toTime(ms.Int64)
}

// toDuration is a stored number of milliseconds.
func toDuration(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
