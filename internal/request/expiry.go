package request

import (
	"time"

	"github.com/later-queue/later"
)

// CheckExpiry refuses a job that expires before it is due: it can only be a
// mistake. It compares what is measured alike, two delays or two instants, and
// so needs no clock. The error is a [later.FieldError].
func (j Job) CheckExpiry() error {
	o := j.Options
	switch {
	case o.ExpiresIn > 0 && o.Delay >= o.ExpiresIn:
		return &later.FieldError{Field: "expires_in", Reason: "is " + written(o.ExpiresIn) + ", but the job is due only after " +
			written(o.Delay) + ": it would expire without having run"}
	case !o.ExpiresAt.IsZero() && !o.RunAt.IsZero() && !o.RunAt.Before(o.ExpiresAt):
		return &later.FieldError{Field: "expires_at", Reason: "is " + stamp(o.ExpiresAt) + ", but the job is due only at " +
			stamp(o.RunAt) + ": it would expire without having run"}
	}
	return nil
}

// NeverRuns reports whether the job has expired when it is due, by the clock
// now, which may differ from the database's.
func (j Job) NeverRuns(now time.Time) bool {
	o := j.Options
	due, expires := now.Add(o.Delay), o.ExpiresAt
	if o.RunAt.After(due) {
		due = o.RunAt
	}
	if o.ExpiresIn > 0 {
		expires = now.Add(o.ExpiresIn)
	}
	return !expires.IsZero() && !due.Before(expires)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
