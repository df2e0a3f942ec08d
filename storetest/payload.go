package storetest

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
)

// keptPayloads are accepted by every store and come back byte for byte.
var keptPayloads = []struct{ name, payload string }{
	// Case 5: digits that a float64 does not have.
	{"64-bit integers", `{"id":9223372036854775807,"b":9007199254740993,"c":1.10}`},
	{"an integer past 64 bits", `{"n":9223372036854775808,"m":-9223372036854775809}`},
	{"a long integer", `123456789012345678901234567890123456789012345678901234567890`},
	{"numbers as written", `[1.0,1E5,1e+5,-0,0.10,1e308,1e-400]`},
	// Case 8: what a signature is over.
	{"the order of keys", `{"bb":1,"a":2}`},
	{"repeated keys", `{"a":1,"a":2}`},
	{"white space", " { \"a\" : 1 ,\n\t\"b\":\r\n[ ] } \n"},
	// Case 1: the harmless twin of the NUL escape.
	{"an escaped backslash before u0000", `{"s":"a\\u0000b"}`},
	{"two escaped backslashes before u0000", `{"s":"a\\\\u0000b","t":"\\\\\\u0000"}`},
	{"an escaped backslash before ud800", `{"s":"\\ud800"}`},
	// Case 4: a whole pair.
	{"a surrogate pair", `{"s":"\ud83d\ude00"}`},
	{"a four-byte character", `{"😀":"😀"}`},
	{"escapes as written", `"\u0041\/\b\f\n\r\t\"\\\u00e9\u2028"`},
	{"characters special elsewhere", "{\"s\":\"<>&'%_$1 \u2028\u202e;--?:name\"}"},
	{"a control character, escaped", `{"s":"\u0001\u001f\u007f"}`},
	{"both spellings of é", "{\"s\":\"caf\u00e9 cafe\u0301\"}"},
	{"a string", `"text"`},
	{"a number", `0`},
	{"null", `null`},
	{"true", `true`},
	{"an empty array", `[]`},
	{"an empty key", `{"":{"":""}}`},
	// Case 14: as deep as is allowed.
	{"the deepest nesting", strings.Repeat("[", later.MaxPayloadDepth) + strings.Repeat("]", later.MaxPayloadDepth)},
}

// refusedPayloads are refused before any SQL, by every store alike, with the
// place of the fault.
var refusedPayloads = []struct{ name, payload, path string }{
	// Case 1.
	{"a NUL in a value", `{"s":"a\u0000b"}`, "$.s"},
	{"a NUL in a key", `{"a\u0000b":1}`, "$.a␀b"},
	{"a NUL in an array", `{"l":["x",{"s":"\u0000"}]}`, "$.l[1].s"},
	{"a NUL after an escaped backslash", `{"s":"\\\u0000"}`, "$.s"},
	// Case 4.
	{"a lone high surrogate", `"\ud800"`, "$"},
	{"a lone low surrogate", `["\udc00"]`, "$[0]"},
	{"two high surrogates", `"\ud83d\ud83d\ude00"`, "$"},
	// Case 7.
	{"a number bomb", `{"n":1e130000}`, "$.n"},
	{"a number past float64", `{"n":1e400}`, "$.n"},
	// Case 14.
	{"10,001 levels", strings.Repeat("[", 10001) + strings.Repeat("]", 10001), "*"},
	// Case 11: what would not decode.
	{"half an object", `{"a":`, "*"},
	{"two values", `{} {}`, "*"},
	{"nothing", ``, ""},
	{"only white space", " \n", ""},
	{"no JSON", `hello`, "*"},
	{"invalid UTF-8", "\"\xff\"", ""},
	{"a raw control character", "\"a\nb\"", "*"},
	{"a raw NUL", "\"a\x00b\"", "*"},
}

type unstorable struct{ V any }

func (unstorable) Kind() string { return kind }

func testPayload(t *testing.T, open Open) {
	// exact. Cases 1, 4, 5, 7, 8, 14: the handler gets the bytes that were
	// enqueued, at every hop: first claim, retry, death, retry from the dead.
	t.Run("a payload stays byte for byte the same at every hop", func(t *testing.T) {
		w := newWorld(t, open)
		for _, p := range keptPayloads {
			t.Run(p.name, func(t *testing.T) {
				w := &world{t: t, ctx: t.Context(), store: w.store}
				w.keepsPayload(p.payload)
			})
		}
	})

	// exact: the limit is the stored size, and a job at the limit works.
	t.Run("the largest payload is kept and a larger one is refused", func(t *testing.T) {
		w := newWorld(t, open)
		largest := `"` + strings.Repeat("x", later.MaxPayloadBytes-2) + `"`
		id := w.enqueueArgs(raw(largest), later.Options{})
		c := w.claimThis(id)
		if string(c.Payload) != largest {
			t.Errorf("got %d other bytes, want the %d that were enqueued", len(c.Payload), len(largest))
		}
		w.settle(end(c, later.OutcomeDone))
		_, err := w.client().Enqueue(w.ctx, raw(`"x`+largest[1:]), later.Options{})
		isError(t, "Enqueue of one byte more", err, later.ErrPayload)
	})

	// Cases 1, 4, 7, 11, 14: one verdict on every store, with the place.
	t.Run("a payload that some reader could not read is refused with its place", func(t *testing.T) {
		w := newWorld(t, open)
		for _, p := range refusedPayloads {
			t.Run(p.name, func(t *testing.T) {
				_, err := w.client().Enqueue(w.ctx, raw(p.payload), later.Options{})
				isError(t, "Enqueue", err, later.ErrPayload)
				isError(t, "Enqueue", err, later.ErrInvalid)
				var field *later.FieldError
				if !errors.As(err, &field) {
					t.Fatalf("got %T, want a FieldError in the chain", err)
				}
				if p.path != "*" {
					equal(t, "path", field.Path, p.path)
				}
			})
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 0)
	})

	// Case 13: values that JSON cannot carry.
	t.Run("a value that JSON cannot carry is refused", func(t *testing.T) {
		w := newWorld(t, open)
		for _, v := range []any{math.NaN(), math.Inf(-1), make(chan int), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			_, err := w.client().Enqueue(w.ctx, unstorable{v}, later.Options{})
			isError(t, "Enqueue", err, later.ErrPayload)
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 0)
	})
}

// keepsPayload takes one job through its whole life and looks at its payload at
// every hop.
func (w *world) keepsPayload(payload string) {
	w.t.Helper()
	id := w.enqueueArgs(raw(payload), later.Options{})
	same := func(hop string, got []byte) {
		w.t.Helper()
		if string(got) != payload {
			w.t.Errorf("%s: got %s, want %s", hop, clip(got), clip([]byte(payload)))
		}
	}
	same("found", w.find(id).Payload)
	c := w.claimThis(id)
	same("first attempt", c.Payload)
	w.settle(end(c, later.OutcomeRetry))
	c = w.claimThis(id)
	same("second attempt", c.Payload)
	w.settle(end(c, later.OutcomeDead))
	same("dead", w.find(id).Payload)
	if err := w.store.Retry(w.ctx, id); err != nil {
		w.t.Fatalf("Retry: %v", err)
	}
	c = w.claimThis(id)
	same("retried from the dead", c.Payload)
	same("listed", w.list(later.Filter{IDs: []int64{id}})[0].Payload)
	w.settle(end(c, later.OutcomeDone))
}
