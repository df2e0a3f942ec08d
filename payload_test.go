package later_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

// nested is n levels of arrays around nothing.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestCheckPayloadAccepts(t *testing.T) {
	for _, c := range []struct{ behaviour, payload string }{
		{"an object", `{}`},
		{"any other value", `[1, "a", true, false, null]`},
		{"a bare string", `"a"`},
		{"a bare number", ` -0.5e-3 `},
		{"a bare null", `null`},
		// Case 1: the harmless twin of a NUL escape is a backslash and letters.
		{"an escaped backslash before u0000", `{"s":"a\\u0000b"}`},
		{"three backslashes' worth of harmlessness", `{"s":"a\\\\u0000b"}`},
		// Case 4.
		{"a pair of surrogates", `"\ud83d\ude00"`},
		{"two pairs in a row", `"\ud83d\ude00\ud83d\ude00"`},
		{"an escaped backslash before a surrogate's letters", `"\\ud800"`},
		// Case 5.
		{"integers past float64's precision", `{"id":9223372036854775807,"b":9007199254740993,"c":1.10}`},
		{"an integer of 300 digits", strings.Repeat("9", 300)},
		{"an integer of 308 digits", strings.Repeat("9", 308)},
		{"a fraction of 1,000 digits", "0." + strings.Repeat("9", 1000)},
		{"the largest float64", `1.7976931348623157e308`},
		{"a number that is nearly 0", `1e-400`},
		// Case 8.
		{"repeated keys and keys out of order", `{"bb":1,"a":2,"a":3}`},
		// Case 14.
		{"the deepest nesting", nested(later.MaxPayloadDepth)},
		{"wide and deep together", `[` + strings.Repeat(nested(9)+`,`, 200) + `[]]`},
		{"the largest", `"` + strings.Repeat("x", later.MaxPayloadBytes-2) + `"`},
		{"every plain escape", `"\"\\\/\b\f\n\r\t\u0001\u20ac"`},
		{"a string that looks like nesting and numbers", `"[[[{{{1e999999 \\"`},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			if err := later.CheckPayload([]byte(c.payload)); err != nil {
				t.Errorf("got %v, want nil", err)
			}
		})
	}
}

func TestCheckPayloadRefuses(t *testing.T) {
	for _, c := range []struct{ behaviour, payload, path, reason string }{
		{"nothing", ``, "", "empty"},
		{"only white space", " \n\t", "", "empty"},
		{"bytes that are no UTF-8", "\"caf\xe9\"", "", "UTF-8"},
		{"a byte order mark", "\ufeff{}", "$", "not valid JSON"},
		{"half a value", `{"a":`, "$.a", "ends too early"},
		{"half a string", `"a`, "$", "ends too early"},
		{"two values", `{} {}`, "", "more than one"},
		{"a trailing comma", `[1,]`, "$[1]", "not valid JSON"},
		{"no comma", `[1 2]`, "", "not valid JSON"},
		{"a bare word", `nil`, "$", "not valid JSON"},
		{"a raw line break in a string", "\"a\nb\"", "$", "not valid JSON"},
		{"a raw NUL", "\"a\x00b\"", "$", "not valid JSON"},
		// Case 1: as a value, as a key, nested in an array.
		{"a NUL escape", `{"s":"a\u0000b"}`, "$.s", `\u0000`},
		{"a NUL escape in a key", `{"x":1,"a\u0000b":2}`, "$.a␀b", `\u0000`},
		{"a NUL escape deep inside", `{"items":[1,{"name":["ok","\u0000"]}]}`, "$.items[1].name[1]", `\u0000`},
		{"a NUL escape after an escaped backslash", `"\\\u0000"`, "$", `\u0000`},
		// Case 4.
		{"a lone high surrogate", `"\ud800"`, "$", `lone surrogate \ud800`},
		{"a lone low surrogate", `"\udc00"`, "$", `lone surrogate \udc00`},
		{"a high surrogate before a letter", `["\ud83dA"]`, "$[0]", `lone surrogate \ud83d`},
		{"a high surrogate before another escape", `["\ud83d\n"]`, "$[0]", `lone surrogate \ud83d`},
		{"surrogates the wrong way round", `"\ude00\ud83d"`, "$", `lone surrogate \ude00`},
		{"a lone surrogate in a key", `{"\uDFFF":1}`, "$.\uFFFD", `lone surrogate \udfff`},
		// Case 7.
		{"a number bomb", `{"n":1e130000}`, "$.n", "1e130000 is outside the range"},
		{"the first number past float64", `[0,1e309]`, "$[1]", "outside the range"},
		{"a negative number past float64", `-1.8E+308`, "$", "outside the range"},
		{"an integer of 310 digits", strings.Repeat("9", 310), "$", "outside the range"},
		{"an exponent past int64", `1e99999999999999999999`, "$", "outside the range"},
		// Case 14.
		{"501 levels", nested(later.MaxPayloadDepth + 1), "", "500 levels"},
		{"10,001 levels", nested(10_001), "", "500 levels"},
		{"501 levels of objects", strings.Repeat(`{"a":`, 501) + "1" + strings.Repeat("}", 501), "", "500 levels"},
		{"one byte too many", `"` + strings.Repeat("x", later.MaxPayloadBytes-1) + `"`, "", "at most"},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			err := later.CheckPayload([]byte(c.payload))
			var field *later.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("got %v, want a FieldError", err)
			}
			if field.Field != "payload" || !errors.Is(err, later.ErrPayload) || !errors.Is(err, later.ErrInvalid) {
				t.Errorf("got %v, want a fault of the payload", err)
			}
			if !strings.Contains(field.Reason, c.reason) {
				t.Errorf("got the reason %q, want %q in it", field.Reason, c.reason)
			}
			if c.path != "" && field.Path != c.path {
				t.Errorf("got the path %q, want %q", field.Path, c.path)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("got an error of %d bytes, want a short one", len(err.Error()))
			}
		})
	}
}

// mail is an ordinary payload.
type mail struct {
	To   string `json:"to"`
	Note any    `json:"note,omitempty"`
}

func (mail) Kind() string { return "mail.send" }

// Case 5: the bytes that are stored are the bytes that were given.
func TestBuildKeepsTheBytes(t *testing.T) {
	for _, payload := range []string{
		`{"id":9223372036854775807,"b":9007199254740993,"c":1.10}`,
		`{ "bb" : 1 , "a" : 2, "a":3 }`,
		"{\"html\":\"<b>&\u2028</b>\"}",
		`{"s":"a\\u0000b"}`,
	} {
		job, err := later.Build(later.RawArgs{JobKind: "k", Payload: json.RawMessage(payload)}, later.Options{})
		if err != nil {
			t.Errorf("%s: %v", payload, err)
			continue
		}
		if got := string(job.Payload); got != payload {
			t.Errorf("got %s, want %s", got, payload)
		}
	}
	t.Run("a pointer to RawArgs is RawArgs", func(t *testing.T) {
		job, err := later.Build(&later.RawArgs{JobKind: "k", Payload: json.RawMessage(`{"a":1}`)}, later.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(job.Payload), `{"a":1}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("a struct is encoded without escapes for HTML", func(t *testing.T) {
		job, err := later.Build(mail{To: "<a&b@example.org>"}, later.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(job.Payload), `{"to":"<a&b@example.org>"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Case 13: values that JSON cannot carry.
func TestBuildRefusesWhatJSONCannotCarry(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		note      any
		reason    string
	}{
		{"not a number", math.NaN(), "NaN"},
		{"infinity", math.Inf(-1), "Inf"},
		{"a channel", make(chan int), "chan int"},
		{"a function", func() {}, "func()"},
		{"a time in the year 10000", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "year outside of range"},
		{"a string with a NUL", "a\x00b", `\u0000`}, // case 1
		{"broken raw JSON", json.RawMessage(`{"a":`), "JSON"},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			_, err := later.Build(mail{Note: c.note}, later.Options{})
			if !errors.Is(err, later.ErrPayload) || !strings.Contains(fmt.Sprint(err), c.reason) {
				t.Errorf("got %v, want a fault of the payload with %q in it", err, c.reason)
			}
		})
	}
	t.Run("raw args without a payload", func(t *testing.T) {
		_, err := later.Build(later.RawArgs{JobKind: "k"}, later.Options{})
		if !errors.Is(err, later.ErrPayload) {
			t.Errorf("got %v, want a fault of the payload", err)
		}
	})
}

// What CheckPayload accepts is the promise that every store builds on.
func checkAccepted(t interface{ Errorf(string, ...any) }, payload []byte) {
	switch {
	case !json.Valid(payload):
		t.Errorf("accepted, but no JSON: %q", payload)
	case !utf8.Valid(payload):
		t.Errorf("accepted, but no UTF-8: %q", payload)
	case len(payload) > later.MaxPayloadBytes:
		t.Errorf("accepted with %d bytes", len(payload))
	}
	// The guard of the SQL tables: pairs of backslashes out, then no NUL escape.
	if bytes.Contains(bytes.ReplaceAll(payload, []byte(`\\`), nil), []byte(`\u0000`)) {
		t.Errorf("accepted with a NUL escape: %q", payload)
	}
	var v any
	if err := json.Unmarshal(payload, &v); err != nil {
		t.Errorf("accepted, but Go cannot decode it: %v: %q", err, payload)
	}
	if s := fmt.Sprint(v); strings.ContainsRune(s, 0) {
		t.Errorf("accepted, but it decodes to a NUL: %q", payload)
	}
	// A lone surrogate would decode to U+FFFD, which was not written.
	var written, decoded bytes.Buffer
	json.Compact(&written, payload)
	enc := json.NewEncoder(&decoded)
	enc.SetEscapeHTML(false)
	enc.Encode(v)
	if bytes.Contains(decoded.Bytes(), []byte("\uFFFD")) && !bytes.Contains(written.Bytes(), []byte("\uFFFD")) &&
		!bytes.Contains(bytes.ToLower(written.Bytes()), []byte(`\ufffd`)) {
		t.Errorf("accepted, but a character was lost: %q", payload)
	}
	// The same bytes, wherever they go as a job.
	job, err := later.Build(later.RawArgs{JobKind: "k", Payload: payload}, later.Options{})
	if err != nil || !bytes.Equal(job.Payload, payload) {
		t.Errorf("got %q, %v, want the same bytes", job.Payload, err)
	}
}

// checkBothPaths compares the verdict on a payload with the verdict on the same
// payload beside a harmless escape, which takes the quick way out.
func checkBothPaths(t interface{ Errorf(string, ...any) }, payload []byte) {
	if !json.Valid(payload) || len(payload) > later.MaxPayloadBytes-20 ||
		bytes.Count(payload, []byte("["))+bytes.Count(payload, []byte("{")) >= later.MaxPayloadDepth {
		return // the wrapping itself changes the verdict
	}
	alone := later.CheckPayload(payload)
	wrapped := later.CheckPayload(fmt.Appendf(nil, `["\u0041",%s]`, payload))
	if (alone == nil) != (wrapped == nil) {
		t.Errorf("%q: alone %v, in an array %v", payload, alone, wrapped)
	}
}

func FuzzCheckPayload(f *testing.F) {
	for _, payload := range []string{
		`{}`, `[1,-2.5e3,"a",true,false,null]`, `{"a":{"b":[{},[]]}}`, `"\ud83d\ude00"`, `"\ud800"`, `"\\u0000"`, `"\u0000"`,
		`{"a\u0000":1}`, `{"n":1e130000}`, `1e309`, `[1,]`, `{"a":1,}`, `{} {}`, `[}`, `{"a" 1}`, "\"\xff\"", `"\u00`, `"\`, `-`, `01`, `1.`,
		strings.Repeat("9", 310), nested(20), "\ufeff{}", ` `, `"\uD83D\uDE00\uDC00"`, `{"":{"":""}}`,
	} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		err := later.CheckPayload(payload)
		if err == nil {
			checkAccepted(t, payload)
		} else if s := err.Error(); !utf8.ValidString(s) || len(s) > 1000 {
			t.Errorf("%q: the error has %d bytes or is not valid UTF-8: %q", payload, len(s), s)
		}
		checkBothPaths(t, payload)
	})
}

// jsonValue draws the text of a JSON value, with what payloads of all producers have:
// escapes, odd numbers, white space.
func jsonValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
		kinds := 4
		if depth > 0 {
			kinds = 6
		}
		switch rapid.IntRange(1, kinds).Draw(t, "kind") {
		case 1:
			return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word") + space
		case 2:
			return space + rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "number")
		case 3, 4:
			return jsonString().Draw(t, "string") + space
		case 5:
			return "[" + space + strings.Join(rapid.SliceOfN(jsonValue(depth-1), 0, 4).Draw(t, "items"), ",") + "]"
		default:
			var members []string
			for _, v := range rapid.SliceOfN(jsonValue(depth-1), 0, 4).Draw(t, "members") {
				members = append(members, jsonString().Draw(t, "key")+space+":"+v)
			}
			return "{" + strings.Join(members, ",") + space + "}"
		}
	})
}

func jsonString() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "é", "€", "😀", "[", "{", " ", "0", "1e9", "u0000", `\\`, `\"`, `\n`, `\/`, `\u0041`, `\u20AC`, `\ud83d\ude00`,
			`\u0000`, `\ud800`, `\uDC00`, "\uFFFD",
		}), 0, 6).Draw(t, "parts"), "") + `"`
	})
}

func TestCheckPayloadAgreesWithItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := []byte(jsonValue(4).Draw(t, "payload"))
		if !json.Valid(payload) {
			t.Fatalf("the test's generator made no JSON: %s", payload)
		}
		if later.CheckPayload(payload) == nil {
			checkAccepted(t, payload)
		}
		checkBothPaths(t, payload)
	})
}

// sourArgs writes its own JSON, or what it takes for it.
type sourArgs string

func (sourArgs) Kind() string                   { return "sour" }
func (a sourArgs) MarshalJSON() ([]byte, error) { return []byte(a), nil }

func TestBuildChecksWhatArgsWriteThemselves(t *testing.T) {
	for _, text := range []string{``, `{`, `{} {}`, `{"a":01}`, "\"\xff\"", `"\u0000"`, `"\ud800"`, `1e400`, "\"\n\""} {
		if job, err := later.Build(sourArgs(text), later.Options{}); !errors.Is(err, later.ErrPayload) {
			t.Errorf("MarshalJSON gives %q: got %q, %v, want it refused", text, job.Payload, err)
		}
		raw := later.RawArgs{JobKind: "sour", Payload: []byte(text)}
		for _, args := range []later.Args{raw, &raw} {
			if _, err := later.Build(args, later.Options{}); !errors.Is(err, later.ErrPayload) {
				t.Errorf("%T of %q: got %v, want it refused", args, text, err)
			}
		}
		args := struct {
			sourKind
			Raw json.RawMessage `json:"raw"`
		}{Raw: json.RawMessage(text)}
		if text == "" {
			continue // is null
		}
		if job, err := later.Build(args, later.Options{}); !errors.Is(err, later.ErrPayload) {
			t.Errorf("a RawMessage of %q: got %q, %v, want it refused", text, job.Payload, err)
		}
	}
	if job, err := later.Build(sourArgs(` {"a" : 1.10} `), later.Options{}); err != nil || string(job.Payload) != `{"a":1.10}` {
		t.Errorf("got %q, %v", job.Payload, err)
	}
}

type sourKind struct{}

func (sourKind) Kind() string { return "sour" }
