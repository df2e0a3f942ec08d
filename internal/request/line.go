package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/spelling"
)

// Job is what a line asks for, and what counts for a line that says nothing.
type Job struct {
	Kind    string
	Payload json.RawMessage // nil: {}
	Options later.Options
}

// Request returns the job as the client takes it.
func (j Job) Request() later.Request {
	payload := j.Payload
	if payload == nil {
		payload = json.RawMessage("{}")
	}
	return later.Request{Args: later.RawArgs{JobKind: j.Kind, Payload: payload}, Options: j.Options}
}

// field reads one field of a line into a job.
type field struct {
	name string
	set  func(job *Job, raw json.RawMessage) error
}

// fields are in the order of the documentation. null is the same as leaving a field
// out, but for the payload, where it is the JSON value null.
var fields = []field{
	{"kind", func(j *Job, raw json.RawMessage) error { return readString("kind", raw, &j.Kind) }},
	{"payload", func(j *Job, raw json.RawMessage) error { j.Payload = raw; return nil }},
	{"queue", func(j *Job, raw json.RawMessage) error { return readString("queue", raw, &j.Options.Queue) }},
	{"priority", func(j *Job, raw json.RawMessage) (err error) {
		j.Options.Priority, err = Priority("priority", string(raw))
		return err
	}},
	{"tenant", func(j *Job, raw json.RawMessage) error { return readString("tenant", raw, &j.Options.Tenant) }},
	{"delay", func(j *Job, raw json.RawMessage) (err error) {
		j.Options.Delay, err = readText("delay", raw, "30s", Duration)
		return err
	}},
	{"run_at", func(j *Job, raw json.RawMessage) (err error) {
		j.Options.RunAt, err = readText("run_at", raw, "2030-01-31T08:00:00Z", Time)
		return err
	}},
	{"max_attempts", func(j *Job, raw json.RawMessage) (err error) {
		text := string(raw)
		if text == `"unlimited"` {
			text = "unlimited"
		}
		j.Options.MaxAttempts, err = Attempts("max_attempts", text)
		return err
	}},
	{"timeout", func(j *Job, raw json.RawMessage) (err error) {
		j.Options.Timeout, err = readText("timeout", raw, "30s", Timeout)
		return err
	}},
	{"expires_in", func(j *Job, raw json.RawMessage) (err error) {
		j.Options.ExpiresIn, err = readText("expires_in", raw, "30s", Positive)
		return err
	}},
	{"expires_at", func(j *Job, raw json.RawMessage) (err error) {
		j.Options.ExpiresAt, err = readText("expires_at", raw, "2030-01-31T08:00:00Z", Time)
		return err
	}},
	{"headers", func(j *Job, raw json.RawMessage) error { return readHeaders(j, raw) }},
	{"unique_key", func(j *Job, raw json.RawMessage) error { return readString("unique_key", raw, &j.unique().Key) }},
	{"unique_until", func(j *Job, raw json.RawMessage) (err error) {
		j.unique().Until, err = readText("unique_until", raw, "started", Until)
		return err
	}},
	{"unique_window", func(j *Job, raw json.RawMessage) (err error) {
		u := j.unique()
		u.Until = later.ForWindow
		u.Window, err = readText("unique_window", raw, "1h", Positive)
		return err
	}},
	{"sliding", func(j *Job, raw json.RawMessage) error { return readBool("sliding", raw, &j.unique().Sliding) }},
	{"on_conflict", func(j *Job, raw json.RawMessage) (err error) {
		j.unique().OnConflict, err = readText("on_conflict", raw, "replace", OnConflict)
		return err
	}},
	{"latest", func(j *Job, raw json.RawMessage) (err error) {
		j.unique().Latest, err = readText("latest", raw, "10m", Positive)
		return err
	}},
}

// unique is the job's own Unique, for a field to be set in it.
func (j *Job) unique() *later.Unique {
	var u later.Unique
	if j.Options.Unique != nil { // the defaults', which other lines share
		u = *j.Options.Unique
	}
	j.Options.Unique = &u
	return &u
}

// FieldNames returns the fields that a line may have.
func FieldNames() []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// otherWords are what people call the fields elsewhere.
var otherWords = map[string]string{
	"in": "delay", "at": "run_at", "scheduled_at": "run_at", "attempts": "max_attempts", "retries": "max_attempts",
	"unique": "unique_key", "key": "unique_key", "args": "payload", "data": "payload", "body": "payload", "type": "kind", "name": "kind", "job": "kind",
}

// ParseLine reads one JSON object and returns the job that it asks for, checked
// as [later.Build] checks it; what it does not say is taken from defaults. The
// payload keeps its bytes. A field that is unknown or occurs twice is refused.
// Every error is a [later.FieldError].
func ParseLine(line []byte, defaults Job) (Job, error) {
	job := defaults
	seen, set := map[string]bool{}, map[string]bool{}
	err := walkObject("line", line, func(key string, raw json.RawMessage) error {
		for _, f := range fields {
			if f.name != key {
				continue
			}
			if seen[key] {
				return &later.FieldError{Field: key, Reason: "occurs twice"}
			}
			seen[key] = true
			if string(raw) == "null" && key != "payload" {
				return nil
			}
			set[key] = true
			return f.set(&job, raw)
		}
		return unknownField(key)
	})
	if err != nil {
		return Job{}, err
	}
	// A line's own time replaces the default's, however either is written.
	if set["run_at"] != set["delay"] {
		if set["run_at"] {
			job.Options.Delay = 0
		} else {
			job.Options.RunAt = time.Time{}
		}
	}
	if set["expires_at"] != set["expires_in"] {
		if set["expires_at"] {
			job.Options.ExpiresIn = 0
		} else {
			job.Options.ExpiresAt = time.Time{}
		}
	}
	if set["unique_until"] && set["unique_window"] {
		return Job{}, &later.FieldError{Field: "unique_until", Reason: "and unique_window are both set; set one"}
	}
	if err := job.CheckExpiry(); err != nil {
		return Job{}, err
	}
	request := job.Request()
	if _, err := later.Build(request.Args, request.Options); err != nil {
		return Job{}, err
	}
	return job, nil
}

func unknownField(key string) error {
	guess := spelling.DidYouMean(key, FieldNames())
	if word := otherWords[strings.ToLower(key)]; word != "" {
		guess = fmt.Sprintf(" (did you mean %q?)", word)
	}
	return &later.FieldError{Field: short(key), Reason: "is not a field of a job" + guess + "; there are " + strings.Join(FieldNames(), ", ")}
}

// walkObject calls each for every key of a JSON object, in their order, with
// the value's bytes as they are written.
func walkObject(name string, data []byte, each func(key string, raw json.RawMessage) error) error {
	broken := func(err error) error {
		reason := err.Error()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			reason = "it ends too early"
		}
		return &later.FieldError{Field: name, Reason: "is not valid JSON: " + reason}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	token, err := dec.Token()
	if err != nil {
		return broken(err)
	}
	if token != json.Delim('{') {
		return &later.FieldError{Field: name, Reason: "is not a JSON object {…}"}
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return broken(err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return broken(err)
		}
		if err := each(key.(string), raw); err != nil { // a key is a string, or Token fails
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return broken(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return &later.FieldError{Field: name, Reason: "goes on behind the JSON object"}
	}
	return nil
}

func readString(name string, raw json.RawMessage, into *string) error {
	// The decoder puts U+FFFD in the place of what is not text; refuse it instead.
	if err := later.CheckPayload(raw); err != nil {
		return &later.FieldError{Field: name, Reason: strings.TrimPrefix(err.Error(), "payload ")}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &later.FieldError{Field: name, Reason: fmt.Sprintf("is %s; it must be a JSON string", short(string(raw)))}
	}
	return nil
}

func readBool(name string, raw json.RawMessage, into *bool) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return &later.FieldError{Field: name, Reason: fmt.Sprintf("is %s; it must be true or false", short(string(raw)))}
	}
	return nil
}

func readText[T any](name string, raw json.RawMessage, example string, read func(field, text string) (T, error)) (T, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		var none T
		return none, &later.FieldError{Field: name, Reason: fmt.Sprintf("is %s; it must be a JSON string such as %q", short(string(raw)), example)}
	}
	return read(name, text)
}

func readHeaders(job *Job, raw json.RawMessage) error {
	headers := map[string]string{}
	err := walkObject("headers", raw, func(key string, raw json.RawMessage) error {
		if _, twice := headers[key]; twice {
			return &later.FieldError{Field: "headers", Reason: fmt.Sprintf("has %q twice", short(key))}
		}
		var value string
		if err := readString("headers", raw, &value); err != nil {
			return err
		}
		headers[key] = value
		return nil
	})
	job.Options.Headers = headers
	return err
}
