// Package request reads requests for jobs that people and programs write as
// text: values of flags, and JSON lines.
package request

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/spelling"
)

// Duration reads a duration: Go's notation (1h30m, 250ms), before which days
// may stand (3d, 1d12h); a day is 24 hours.
func Duration(field, text string) (time.Duration, error) {
	fault := &later.FieldError{Field: field, Reason: fmt.Sprintf("is %q; a duration is written as 30s, 10m, 24h or 3d", short(text))}
	var days time.Duration
	rest := text
	if number, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || time.Duration(n) > math.MaxInt64/(24*time.Hour) {
			return 0, fault
		}
		days, rest = time.Duration(n)*24*time.Hour, after
		if rest == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || days > 0 && (d < 0 || days > math.MaxInt64-d) {
		return 0, fault
	}
	return days + d, nil
}

// Time reads an instant as RFC 3339 writes it, with its zone.
func Time(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, &later.FieldError{Field: field, Reason: fmt.Sprintf(
			"is %q; a time is written as 2030-01-31T08:00:00Z or 2030-01-31T08:00:00+02:00", short(text))}
	}
	return t, nil
}

// Attempts reads a number of attempts, or the word unlimited.
func Attempts(field, text string) (int, error) {
	if text == "unlimited" {
		return later.UnlimitedAttempts, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, &later.FieldError{Field: field, Reason: fmt.Sprintf(
			"is %q; it goes from 1 to %d, or is unlimited", short(text), later.UnlimitedAttempts)}
	}
	return int(n), nil
}

// Priority reads a priority.
func Priority(field, text string) (int16, error) {
	n, err := strconv.ParseInt(text, 10, 16)
	if err != nil {
		return 0, &later.FieldError{Field: field, Reason: fmt.Sprintf(
			"is %q; it goes from %d (runs first) to %d", short(text), math.MinInt16, math.MaxInt16)}
	}
	return int16(n), nil
}

// positive refuses what Options would take for "not set".
func positive(field string, d time.Duration, err error) (time.Duration, error) {
	if err == nil && d <= 0 {
		err = &later.FieldError{Field: field, Reason: fmt.Sprintf("is %v; it must be more than nothing", d)}
	}
	return d, err
}

// Positive is [Duration] for a field in which nothing and less make no sense.
func Positive(field, text string) (time.Duration, error) {
	d, err := Duration(field, text)
	return positive(field, d, err)
}

// Timeout is [Positive] within the bounds of a job's timeout.
func Timeout(field, text string) (time.Duration, error) {
	d, err := Positive(field, text)
	if err == nil && (d < time.Millisecond || d > later.MaxTimeout) {
		// later.Build says it of the duration, in hours, minutes and seconds.
		err = &later.FieldError{Field: field, Reason: fmt.Sprintf("is %s; it goes from 1ms to %s", short(text), written(later.MaxTimeout.Truncate(time.Hour)))}
	}
	return d, err
}

// written is d as Duration reads it.
func written(d time.Duration) string {
	const day = 24 * time.Hour
	days, rest := d/day, d%day
	text := rest.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	switch {
	case days == 0:
		return text
	case rest == 0:
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd%s", days, text)
}

// Until reads how long a key is held; a window is set by its length.
func Until(field, text string) (later.Until, error) {
	return oneOf(field, text, later.UntilDone, later.UntilStarted)
}

// OnConflict reads what happens to the job that holds the key.
func OnConflict(field, text string) (later.OnConflict, error) {
	return oneOf(field, text, later.Skip, later.Replace, later.Postpone, later.ReplaceAndPostpone)
}

// oneOf reads one of several words.
func oneOf[T fmt.Stringer](field, text string, values ...T) (T, error) {
	words := make([]string, len(values))
	for i, v := range values {
		if words[i] = v.String(); words[i] == text {
			return v, nil
		}
	}
	return values[0], &later.FieldError{Field: field, Reason: fmt.Sprintf("is %q%s; there are %s",
		short(text), spelling.DidYouMean(text, words), strings.Join(words, ", "))}
}

func short(text string) string { return later.CleanText(text, 60) }
