package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/later-queue/later"
)

// newRow is a job on its way into the table. It shares no memory with what the caller
// gave that the caller may change.
type newRow struct {
	shape
	Payload     string     `json:"payload"`
	DelayUS     *int64     `json:"delay_us"`
	RunAt       *time.Time `json:"run_at"`
	ExpiresInUS *int64     `json:"expires_in_us"`
	ExpiresAt   *time.Time `json:"expires_at"`
	Headers     *string    `json:"headers"`
}

// shape is what jobs mostly share.
type shape struct {
	Queue       string `json:"queue"`
	Tenant      string `json:"tenant"`
	Kind        string `json:"kind"`
	Priority    int16  `json:"priority"`
	MaxAttempts int32  `json:"max_attempts"`
	TimeoutMS   int32  `json:"timeout_ms"`
}

func rowsOf(jobs []later.NewJob) ([]newRow, error) {
	rows := make([]newRow, len(jobs))
	for i := range jobs {
		if err := rows[i].set(&jobs[i]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (r *newRow) set(job *later.NewJob) error {
	r.shape = shape{
		Queue: job.Queue, Tenant: job.Tenant, Kind: job.Kind, Priority: job.Priority,
		MaxAttempts: int32(job.MaxAttempts), TimeoutMS: int32(job.Timeout.Milliseconds()),
	}
	r.Payload = string(job.Payload)
	r.DelayUS, r.RunAt = span(job.Delay), instant(job.RunAt)
	r.ExpiresInUS, r.ExpiresAt = span(job.ExpiresIn), instant(job.ExpiresAt)
	if job.Headers != nil {
		headers, err := json.Marshal(job.Headers)
		if err != nil {
			return fmt.Errorf("headers: %w", err)
		}
		text := string(headers)
		r.Headers = &text
	}
	return nil
}

// size is about how many bytes the row takes on its way.
func (r *newRow) size() int {
	size := len(r.Payload)
	if r.Headers != nil {
		size += len(*r.Headers)
	}
	return size
}

// span is d in microseconds, or nil for none.
func span(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	us := micros(d)
	return &us
}

// instant is t as Postgres keeps it, or nil for none. The first hours of the
// year 1 in another zone are in the year 0 of UTC, which the table refuses; they
// become its first instant.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	if first := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(first) {
		t = first
	}
	return &t
}

// newColumns are the parameters of insertRows.
type newColumns struct {
	// One element for each shape.
	queue, tenant, kind    []string
	priority               []int16
	maxAttempts, timeoutMS []int32

	// One element for each job.
	shape   []int16 // its place among the shapes, from 1
	payload []string

	// One element for each job up to the last that has any.
	delayUS, expiresInUS []*int64
	runAt, expiresAt     []*time.Time
	headers              []*string
}

// fill takes as many of rows as one statement may, at least one, and returns how many.
// Up to maxShapes it takes all.
func (c *newColumns) fill(rows []newRow) int {
	places := make(map[shape]int16)
	c.shape, c.payload = make([]int16, 0, len(rows)), make([]string, 0, len(rows))
	place := int16(0)
	for i := range rows {
		r := &rows[i]
		if i == 0 || r.shape != rows[i-1].shape { // the map is asked only where they differ
			var known bool
			if place, known = places[r.shape]; !known {
				if len(places) == maxShapes {
					return i
				}
				place = c.add(&r.shape)
				places[r.shape] = place
			}
		}
		c.shape, c.payload = append(c.shape, place), append(c.payload, r.Payload)
		c.delayUS, c.runAt = put(c.delayUS, i, r.DelayUS), put(c.runAt, i, r.RunAt)
		c.expiresInUS, c.expiresAt = put(c.expiresInUS, i, r.ExpiresInUS), put(c.expiresAt, i, r.ExpiresAt)
		c.headers = put(c.headers, i, r.Headers)
	}
	return len(rows)
}

// add returns the place of a new shape.
func (c *newColumns) add(s *shape) int16 {
	c.queue, c.tenant, c.kind = append(c.queue, s.Queue), append(c.tenant, s.Tenant), append(c.kind, s.Kind)
	c.priority = append(c.priority, s.Priority)
	c.maxAttempts, c.timeoutMS = append(c.maxAttempts, s.MaxAttempts), append(c.timeoutMS, s.TimeoutMS)
	return int16(len(c.queue))
}

// put sets a column's element, and does nothing for nil.
func put[T any](column []*T, at int, v *T) []*T {
	if v == nil {
		return column
	}
	for len(column) < at {
		column = append(column, nil)
	}
	return append(column, v)
}
