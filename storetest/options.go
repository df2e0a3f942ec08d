package storetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// oneOption sets a single option each, to a value that is not its default
// (case 209): name, the option, and the change to the default record.
var oneOption = []struct {
	name   string
	opts   later.Options
	change func(r *later.Record)
}{
	{"queue", later.Options{Queue: "mail"}, func(r *later.Record) { r.Queue = "mail" }},
	{"priority", later.Options{Priority: 7}, func(r *later.Record) { r.Priority = 7 }},
	{"the lowest priority", later.Options{Priority: math.MaxInt16}, func(r *later.Record) { r.Priority = math.MaxInt16 }},
	{"the highest priority", later.Options{Priority: math.MinInt16}, func(r *later.Record) { r.Priority = math.MinInt16 }},
	{"tenant", later.Options{Tenant: "acme"}, func(r *later.Record) { r.Tenant = "acme" }},
	{"delay", later.Options{Delay: long}, func(r *later.Record) { r.RunAt = r.CreatedAt.Add(long) }},
	{"run_at", later.Options{RunAt: someday}, func(r *later.Record) { r.RunAt = someday }},
	{"one attempt", later.Options{MaxAttempts: 1}, func(r *later.Record) { r.MaxAttempts = 1 }},
	{"unlimited attempts", later.Options{MaxAttempts: later.UnlimitedAttempts}, func(r *later.Record) { r.MaxAttempts = math.MaxInt32 }},
	{"timeout", later.Options{Timeout: 1500 * time.Millisecond}, func(r *later.Record) { r.Timeout = 1500 * time.Millisecond }},
	{"the shortest timeout", later.Options{Timeout: time.Millisecond}, func(r *later.Record) { r.Timeout = time.Millisecond }},
	{"the longest timeout", later.Options{Timeout: later.MaxTimeout}, func(r *later.Record) { r.Timeout = later.MaxTimeout }},
	{"expires_in", later.Options{ExpiresIn: 2 * long}, func(r *later.Record) { r.ExpiresAt = r.CreatedAt.Add(2 * long) }},
	{"expires_at", later.Options{ExpiresAt: someday}, func(r *later.Record) { r.ExpiresAt = someday }},
	{"headers", later.Options{Headers: oddHeaders}, func(r *later.Record) { r.Headers = oddHeaders }},
}

var (
	someday    = time.Date(2120, 2, 29, 12, 30, 15, 250e6, time.UTC)
	oddHeaders = map[string]string{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"empty":       "", "odd": "a'b\"c\\d\n\x01 %_ \u2028 😀 \\u0000", "x-Y.z:1": "null",
	}
)

func testOptions(t *testing.T, open Open) {
	// Case 209: an option is kept on every path or refused, never ignored.
	for _, o := range oneOption {
		t.Run("the option "+o.name+" is kept from the insert to a retry from the dead", func(t *testing.T) {
			w := newWorld(t, open)
			single := w.enqueue(o.opts)
			many := w.enqueueMany(2, raw(`{}`), o.opts)
			for _, id := range []int64{single, many[1]} {
				w.keepsOption(id, o.change)
			}
		})
	}

	// Case 209: all of them at once, so that no two swap their places.
	t.Run("all options together are kept from the insert to a retry from the dead", func(t *testing.T) {
		w := newWorld(t, open)
		id := w.enqueue(later.Options{
			Queue: "mail", Priority: -3, Tenant: "acme", Delay: long, MaxAttempts: 9,
			Timeout: 7 * time.Second, ExpiresIn: 3 * long, Headers: oddHeaders,
		})
		w.keepsOption(id, func(r *later.Record) {
			r.Queue, r.Priority, r.Tenant, r.RunAt, r.MaxAttempts = "mail", -3, "acme", r.CreatedAt.Add(long), 9
			r.Timeout, r.ExpiresAt, r.Headers = 7*time.Second, r.CreatedAt.Add(3*long), oddHeaders
		})
	})

	// kept, exact: Build decides alone what can be stored.
	t.Run("whatever Build accepts is stored and comes back the same", func(t *testing.T) {
		w := newWorld(t, open)
		rapid.Check(t, func(rt *rapid.T) {
			request := drawRequest(rt)
			job, err := later.Build(request.Args, request.Options)
			if err != nil {
				rt.Skipf("refused: %v", err)
			}
			done, err := w.store.Insert(w.ctx, []later.NewJob{job})
			if err != nil {
				rt.Fatalf("Insert of %+v: %v", job, err)
			}
			got, err := w.store.Find(w.ctx, done[0].ID)
			if err != nil {
				rt.Fatalf("Find: %v", err)
			}
			if diff := diffRecords(got.Record, expected(done[0].ID, job, got.Record)); diff != "" {
				rt.Fatal(diff)
			}
		})
	})
}

// keepsOption takes job id through its life and compares all of it at each hop.
func (w *world) keepsOption(id int64, change func(r *later.Record)) {
	w.t.Helper()
	info := w.find(id)
	want := later.Record{
		ID: id, Queue: queue, Kind: kind, Payload: []byte(`{}`), RunAt: info.CreatedAt, CreatedAt: info.CreatedAt,
		MaxAttempts: later.DefaultMaxAttempts, Timeout: later.DefaultTimeout,
	}
	change(&want)
	same := func(hop string, got later.Record) {
		w.t.Helper()
		sameRecord(w.t, hop, got, want)
	}
	same("found", info.Record)
	same("listed", w.list(later.Filter{IDs: []int64{id}})[0].Record)

	if info.State == later.StateScheduled {
		w.retry(id)
	}
	want.RunAt = w.find(id).RunAt
	c := w.claimThis(id)
	want.Attempt = 1
	same("claimed", c.Record)
	failed := end(c, later.OutcomeRetry)
	w.settle(failed)
	want.RunAt, want.Errors, want.Failures = w.find(id).RunAt, failed.Errors, 1
	c = w.claimThis(id)
	want.Attempt = 2
	same("claimed again", c.Record)
	failed = end(c, later.OutcomeDead)
	w.settle(failed)
	want.Errors, want.Failures = failed.Errors, 2
	same("dead", w.find(id).Record)
	same("listed dead", w.list(later.Filter{IDs: []int64{id}})[0].Record)
	w.retry(id)
	// What a retry from the dead changes, and nothing else.
	want.Attempt, want.Failures, want.Generation = 0, 0, 1
	want.RunAt, want.ExpiresAt = w.find(id).RunAt, time.Time{}
	same("revived", w.find(id).Record)
	c = w.claimThis(id)
	want.Attempt = 1
	same("claimed after its death", c.Record)
	w.settle(end(c, later.OutcomeDone))
}

// expected is the record that job becomes; times by the store's clock are
// taken from got, where they are plausible.
func expected(id int64, job later.NewJob, got later.Record) later.Record {
	want := later.Record{
		ID: id, Queue: job.Queue, Priority: job.Priority, Tenant: job.Tenant, Kind: job.Kind, Payload: job.Payload,
		RunAt: got.CreatedAt.Add(job.Delay), MaxAttempts: job.MaxAttempts, Timeout: job.Timeout,
		ExpiresAt: job.ExpiresAt, Headers: job.Headers, CreatedAt: got.CreatedAt,
	}
	if job.RunAt.After(got.CreatedAt) {
		want.RunAt = job.RunAt
	}
	if job.ExpiresIn > 0 {
		want.ExpiresAt = got.CreatedAt.Add(job.ExpiresIn)
	}
	return want
}

func drawRequest(t *rapid.T) later.Request {
	name := rapid.StringMatching(`[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}`)
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom(oddNames), rapid.StringOf(rapid.SampledFrom([]rune(`'"\;%_-$ {}[],:éß😀`))))
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-62135596799, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999).Draw(t, "ms")*1e6).UTC()
	})
	opts := later.Options{
		Queue: name.Draw(t, "queue"), Priority: rapid.Int16().Draw(t, "priority"), Tenant: text.Draw(t, "tenant"),
		MaxAttempts: int(rapid.Int32Min(1).Draw(t, "max attempts")),
		Timeout:     time.Duration(rapid.Int64Range(1, math.MaxInt32).Draw(t, "timeout")) * time.Millisecond,
	}
	switch rapid.IntRange(0, 2).Draw(t, "when") {
	case 1:
		opts.Delay = time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "delay"))
	case 2:
		opts.RunAt = instant.Draw(t, "run_at")
	}
	switch rapid.IntRange(0, 2).Draw(t, "expiry") {
	case 1:
		opts.ExpiresIn = time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "expires_in"))
	case 2:
		opts.ExpiresAt = instant.Draw(t, "expires_at")
	}
	if headers := rapid.MapOfN(name, text, 0, 4).Draw(t, "headers"); len(headers) > 0 {
		opts.Headers = maps.Clone(headers)
	}
	return later.Request{
		Args:    later.RawArgs{JobKind: name.Draw(t, "kind"), Payload: []byte(drawJSON(t, 3, text))},
		Options: opts,
	}
}

// drawJSON writes a value by hand, so that spellings occur which no encoder has.
func drawJSON(t *rapid.T, depth int, text *rapid.Generator[string]) string {
	str := func() string {
		quoted, err := json.Marshal(text.Draw(t, "string"))
		if err != nil {
			t.Fatal(err)
		}
		escapes := rapid.SampledFrom([]string{"", `\\u0000`, `\u00e9`, `\/`, `\ud83d\ude00`, `\\\\`, `\u0001`}).Draw(t, "escape")
		return `"` + escapes + string(quoted[1:])
	}
	space := rapid.SampledFrom([]string{"", " ", "\n", "\t"}).Draw(t, "space")
	top := 6
	if depth == 0 {
		top = 4
	}
	switch rapid.IntRange(0, top).Draw(t, "type") {
	case 0:
		return space + rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
	case 1:
		return fmt.Sprint(rapid.Int64().Draw(t, "int")) + space
	case 2:
		return rapid.SampledFrom([]string{"-0", "1.10", "1E5", "1e+300", "123456789012345678901234567890", "0.1e-9"}).Draw(t, "number")
	case 3, 4:
		return space + str()
	case 5:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawJSON(t, depth-1, text))
		}
		return "[" + strings.Join(items, ","+space) + "]"
	default:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			items = append(items, str()+space+":"+drawJSON(t, depth-1, text))
		}
		return "{" + strings.Join(items, ",") + space + "}"
	}
}
