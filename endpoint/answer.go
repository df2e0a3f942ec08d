package endpoint

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/later-queue/later"
)

const (
	// MinDelay is the shortest time that an answer can ask for: a shorter one
	// counts as this, so that a job cannot spin. Chosen, not measured.
	MinDelay = time.Second
	// MaxDelay is the longest time that an answer can ask for: a longer one
	// counts as this. Chosen: a receiver's mistake costs a day.
	MaxDelay = 24 * time.Hour
	// MaxErrorBody is how much of an answer's body an error shows.
	MaxErrorBody = 500
)

// outcome is what the handler returns for an answer.
func (t *target) outcome(a *answer) error {
	if a.status >= 200 && a.status <= 299 {
		return nil
	}
	err := fmt.Errorf("POST %s: %s", t.url.Host, t.describe(a))
	if !t.isRetried(a.status) {
		return later.Permanent(err)
	}
	now := time.Now()
	if d, ok := parseDelay(a.header.Get("Later-Snooze"), a.header.Get("Date"), now); ok {
		return later.Snooze(spread(d))
	}
	if d, ok := parseDelay(a.header.Get("Retry-After"), a.header.Get("Date"), now); ok {
		return later.RetryAfter(err, spread(d))
	}
	return err
}

func (t *target) isRetried(status int) bool {
	switch {
	case status >= 300 && status <= 399:
		return false
	case status >= 400 && status <= 499:
		return status == http.StatusRequestTimeout || status == http.StatusTooEarly ||
			status == http.StatusTooManyRequests || slices.Contains(t.retry, status)
	}
	return true
}

// describe is the status and what of the answer helps a person.
func (t *target) describe(a *answer) string {
	text := strings.TrimSpace(strconv.Itoa(a.status) + " " + http.StatusText(a.status))
	if a.status >= 300 && a.status <= 399 {
		return text + ": a redirect" + redirectTo(a.header.Get("Location")) + " is not followed"
	}
	body := string(a.body)
	for _, secret := range t.secrets {
		// A server that echoes the request must not carry them into the error.
		body = strings.ReplaceAll(body, secret, "[secret]")
	}
	body = later.CleanText(strings.TrimSpace(body), MaxErrorBody)
	if body == "" {
		return text
	}
	return text + ": " + body
}

// redirectTo names a redirect's host: the rest of it may be secret.
func redirectTo(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return ""
	}
	return " to " + later.CleanText(u.Host, 100)
}

// parseDelay reads the value of Retry-After: seconds, or a date, which counts
// from the answer's own date where it has one, since the server's clock may be
// wrong. A valid result is from [MinDelay] to [MaxDelay].
func parseDelay(value, date string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err != nil || seconds > uint64(MaxDelay/time.Second) {
			return MaxDelay, true
		}
		return max(time.Duration(seconds)*time.Second, MinDelay), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	d := at.Sub(now)
	if d <= 0 {
		return 0, false
	}
	return min(max(d, MinDelay), MaxDelay), true
}

// spread makes d up to a fifth longer: as much as later.Backoff's jitter.
func spread(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/5+1))
}
