package cli

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/why"
)

// jobView is a job as --json prints it. Fields are only ever added. Ids are
// strings, because JavaScript and older jq lose digits of large numbers.
type jobView struct {
	ID             string            `json:"id"`
	State          later.State       `json:"state"`
	Queue          string            `json:"queue"`
	Priority       int16             `json:"priority"`
	Tenant         string            `json:"tenant"`
	Kind           string            `json:"kind"`
	Payload        json.RawMessage   `json:"payload"`
	RunAt          *time.Time        `json:"run_at"`
	Attempt        int               `json:"attempt"`
	MaxAttempts    int               `json:"max_attempts"`
	TimeoutMS      int64             `json:"timeout_ms"`
	ExpiresAt      *time.Time        `json:"expires_at"`
	Headers        map[string]string `json:"headers"`
	CreatedAt      *time.Time        `json:"created_at"`
	Crashes        int               `json:"crashes"`
	Generation     int               `json:"generation"`
	IdempotencyKey string            `json:"idempotency_key"`
	Errors         []errorView       `json:"errors"`
	Checkpoint     json.RawMessage   `json:"checkpoint"`
	Worker         *string           `json:"worker"`
	ClaimedAt      *time.Time        `json:"claimed_at"`
	LeaseUntil     *time.Time        `json:"lease_until"`
	CancelAt       *time.Time        `json:"cancel_at"`
	DiedAt         *time.Time        `json:"died_at"`
	DeadReason     *string           `json:"dead_reason"`
	UniqueKey      *string           `json:"unique_key"`
	UniqueUntil    *string           `json:"unique_until"`

	// Of show only:
	Why *why.Reason `json:"why,omitempty"`
	Log []logView   `json:"log,omitempty"`
}

type errorView struct {
	Attempt int        `json:"attempt"`
	At      *time.Time `json:"at"`
	Worker  string     `json:"worker"`
	Error   string     `json:"error"`
}

type logView struct {
	Attempt    int           `json:"attempt"`
	Outcome    later.Outcome `json:"outcome"`
	Worker     string        `json:"worker"`
	StartedAt  *time.Time    `json:"started_at"`
	FinishedAt *time.Time    `json:"finished_at"`
	Error      string        `json:"error"`
}

func viewJob(j *later.JobInfo) jobView {
	v := jobView{
		ID: formatID(j.ID), State: j.State, Queue: j.Queue, Priority: j.Priority, Tenant: j.Tenant, Kind: j.Kind,
		Payload: viewRaw(j.Payload), RunAt: instant(j.RunAt), Attempt: j.Attempt, MaxAttempts: j.MaxAttempts,
		TimeoutMS: j.Timeout.Milliseconds(), ExpiresAt: instant(j.ExpiresAt), Headers: j.Headers, CreatedAt: instant(j.CreatedAt),
		Crashes: j.Crashes, Generation: j.Generation, IdempotencyKey: j.IdempotencyKey(), Errors: []errorView{}, Checkpoint: viewRaw(j.Checkpoint),
		Worker: optional(j.Worker), ClaimedAt: instant(j.ClaimedAt), LeaseUntil: instant(j.LeaseUntil), CancelAt: instant(j.CancelAt),
		DiedAt: instant(j.DiedAt), DeadReason: optional(string(j.DeadReason)),
	}
	if j.UniqueKey != "" {
		v.UniqueKey, v.UniqueUntil = optional(j.UniqueKey), optional(j.UniqueUntil.String())
	}
	if v.Headers == nil {
		v.Headers = map[string]string{}
	}
	for _, e := range j.Errors {
		v.Errors = append(v.Errors, errorView{Attempt: e.Attempt, At: instant(e.At), Worker: e.Worker, Error: e.Error})
	}
	for _, l := range j.Log {
		v.Log = append(v.Log, logView{Attempt: l.Attempt, Outcome: l.Outcome, Worker: l.Worker,
			StartedAt: instant(l.StartedAt), FinishedAt: instant(l.FinishedAt), Error: l.Error})
	}
	return v
}

// viewRaw keeps JSON as it is. What is none, which a database with its
// constraints taken off could hold, becomes a string instead of an error.
func viewRaw(raw json.RawMessage) json.RawMessage {
	if raw == nil || json.Valid(raw) {
		return raw
	}
	text, _ := json.Marshal(string(raw)) // a string can always be encoded
	return text
}

func formatID(id int64) string { return strconv.FormatInt(id, 10) }

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// parseID reads an id from the command line.
func parseID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, usageError("%q is no job id; an id is a number from 1 on, as `later list` shows it", later.CleanText(text, 60))
	}
	return id, nil
}

func parseIDs(args []string) ([]int64, error) {
	ids := make([]int64, len(args))
	for i, text := range args {
		id, err := parseID(text)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}
