package later_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/later-queue/later"
)

func keyOf(t *testing.T, parts ...any) string {
	t.Helper()
	key, err := later.KeyOf(parts...)
	if err != nil {
		t.Fatalf("KeyOf(%v): %v", parts, err)
	}
	if _, err := buildUnique(later.Unique{Key: key}); err != nil {
		t.Fatalf("KeyOf(%v) is %q, which is no key: %v", parts, key, err)
	}
	return key
}

func TestKeyOf(t *testing.T) {
	t.Run("is JSON that people can read", func(t *testing.T) {
		at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
		for _, c := range []struct {
			parts []any
			want  string
		}{
			{nil, `[]`},
			{[]any{nil}, `[null]`},
			{[]any{"report", 42, true, at}, `["report",42,true,"2026-11-30T10:00:00Z"]`},
			{[]any{map[string]any{"b": 1, "a": []int{1, 2}}}, `[{"a":[1,2],"b":1}]`},
			{[]any{struct {
				B int
				A string `json:"a"`
			}{1, "x<&>"}}, `[{"B":1,"a":"x<&>"}]`},
			{[]any{0.5, 1e21, int64(math.MaxInt64), uint64(math.MaxUint64), math.Copysign(0, -1), 1200}, `[5e-1,1e21,9223372036854775807,18446744073709551615,0,1200]`},
			{[]any{"é\u0085\u007f\t\"\\\u2028"}, `["é\u0085\u007f\u0009\"\\` + "\u2028" + `"]`},
		} {
			if got := keyOf(t, c.parts...); got != c.want {
				t.Errorf("%v: got %s, want %s", c.parts, got, c.want)
			}
		}
	})

	// Case 106: numbers by their value, however they are written.
	t.Run("takes numbers by their value", func(t *testing.T) {
		same := []any{1, int8(1), uint64(1), 1.0, json.Number("1.0"), json.Number("1e0"), json.Number("10E-1"), json.RawMessage("0.1e+1"), json.RawMessage("1.000")}
		for _, one := range same {
			if got := keyOf(t, one); got != "[1]" {
				t.Errorf("%v: got %s, want [1]", one, got)
			}
		}
		big := []string{"9223372036854775807", "9223372036854775808", "9007199254740993", "9007199254740992", "1e300", "1e301", "1e-400", "1e-401", "0.1", "0.10000000000000001"}
		seen := map[string]string{}
		for _, text := range big {
			got := keyOf(t, json.Number(text))
			if other, twice := seen[got]; twice {
				t.Errorf("%s and %s have one key: %s", text, other, got)
			}
			seen[got] = text
		}
	})

	// Case 107.
	t.Run("differs for values that differ, and for parts that are cut elsewhere", func(t *testing.T) {
		seen := map[string][]any{}
		for _, parts := range [][]any{
			{"ab", "c"}, {"a", "bc"}, {"abc"}, {`ab","c`}, {[]string{"ab", "c"}}, {"ab", "c", nil}, {"ab", []string{"c"}},
			{1}, {"1"}, {true}, {"true"}, {nil}, {"null"}, {""}, {}, {0}, {false}, {"[]"}, {[]any{}}, {map[string]any{}},
			{map[string]any{"a": map[string]any{"b": 1}}}, {map[string]any{"a": map[string]any{"b": 2}}}, {map[string]any{"ab": 1}},
			{strings.Repeat("x", 300)}, {strings.Repeat("x", 301)}, {strings.Repeat("x", 150), strings.Repeat("x", 150)},
			{"é"}, {"e\u0301"}, {"\ufffd"},
		} {
			key := keyOf(t, parts...)
			if other, twice := seen[key]; twice {
				t.Errorf("%v and %v have one key: %s", parts, other, key)
			}
			seen[key] = parts
		}
	})

	t.Run("is a hash when it would be too long", func(t *testing.T) {
		long := strings.Repeat("é", 98) // with brackets and quotes 200 bytes
		if got := keyOf(t, long); got != `["`+long+`"]` {
			t.Errorf("got %s, want it as it is", got)
		}
		got := keyOf(t, long+"x")
		if !strings.HasPrefix(got, "sha256:") || len(got) != len("sha256:")+64 {
			t.Errorf("got %s, want a SHA-256", got)
		}
	})

	t.Run("refuses what has no one meaning", func(t *testing.T) {
		for name, part := range map[string]any{
			"text that is not UTF-8": "a\xff", "that, nested": map[string]any{"a": []string{"\xc3"}}, "that, as a name": map[string]int{"\xff": 1},
			"half a surrogate": json.RawMessage(`"\ud800"`), "a NUL": "\x00", "no number": math.NaN(), "a function": func() {},
			"a number out of range": json.Number("1e400"), "broken JSON": json.RawMessage(`{`),
		} {
			key, err := later.KeyOf(part)
			var fault *later.FieldError
			if !errors.As(err, &fault) || fault.Field != "unique_key" {
				t.Errorf("%s: got %q, %v, want a fault of unique_key", name, key, err)
			}
		}
	})

	// The key is a function of the value, and the value of the key.
	t.Run("of any JSON means that JSON", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			value := anyJSON(rt, 3)
			text, err := json.Marshal(value)
			if err != nil {
				rt.Fatal(err)
			}
			key, err := later.KeyOf(json.RawMessage(text))
			if err != nil {
				if !strings.Contains(string(text), `\u0000`) {
					rt.Fatalf("KeyOf(%s): %v", text, err)
				}
				return // a NUL is refused
			}
			if again, err := later.KeyOf(value); err != nil || again != key {
				rt.Fatalf("KeyOf(%s): got %s and %s, %v", text, key, again, err)
			}
			if strings.HasPrefix(key, "sha256:") {
				return
			}
			var back []any
			if err := json.Unmarshal([]byte(key), &back); err != nil || len(back) != 1 {
				rt.Fatalf("%s is no JSON of one value: %v", key, err)
			}
			if got, _ := json.Marshal(back[0]); string(got) != string(text) {
				rt.Fatalf("got %s, want %s", got, text)
			}
		})
	})
}

func anyJSON(rt *rapid.T, depth int) any {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(rt, "type") {
	case 0:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(rt, "word")
	case 1:
		return rapid.Float64().Filter(func(f float64) bool { return f != 0 }).Draw(rt, "number") // -0 is 0
	case 2:
		return float64(rapid.Int32().Draw(rt, "integer"))
	case 3:
		return rapid.String().Draw(rt, "text")
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(rt, "items") {
			list = append(list, anyJSON(rt, depth-1))
		}
		return list
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(rt, "members") {
			object[rapid.String().Draw(rt, "name")] = anyJSON(rt, depth-1)
		}
		return object
	}
}

type syncJob struct {
	Account any `json:"account,omitempty"`
	X       int `json:"x,omitempty"`
	Hidden  int `json:"-"`
	Plain   string
	embedded
}

type embedded struct {
	Inner int `json:"inner,omitempty"`
}

func (syncJob) Kind() string { return "sync" }

func TestPayloadKey(t *testing.T) {
	key := func(t *testing.T, payload string, fields ...string) string {
		t.Helper()
		got, err := later.PayloadKey(later.RawArgs{JobKind: "sync", Payload: []byte(payload)}, fields...)
		if err != nil {
			t.Fatalf("PayloadKey(%s): %v", payload, err)
		}
		return got
	}

	// Case 106, in either order: fields that are not named do not count; 1 is not "1",
	// and is 1.0; absent is not null.
	t.Run("is of the named fields", func(t *testing.T) {
		for payload, want := range map[string]string{
			`{"account":1}`:              `{"account":1}`,
			`{"account":1,"x":1}`:        `{"account":1}`,
			` {"x":2, "account": 1} `:    `{"account":1}`,
			`{"account":"1"}`:            `{"account":"1"}`,
			`{"account":1.0}`:            `{"account":1}`,
			`{}`:                         `{}`,
			`{"x":1}`:                    `{}`,
			`{"account":null}`:           `{"account":null}`,
			`{"account":{"b":1,"a":[]}}`: `{"account":{"a":[],"b":1}}`,
		} {
			if got := key(t, payload, "account"); got != want {
				t.Errorf("%s: got %s, want %s", payload, got, want)
			}
		}
		if a, b := key(t, `{"a":1,"b":2,"c":3}`, "a", "b"), key(t, `{"c":4,"b":2.0,"a":1}`, "b", "a", "b"); a != b || a != `{"a":1,"b":2}` {
			t.Errorf("got %s and %s, want one key of a and b", a, b)
		}
	})

	t.Run("is of the whole payload without names", func(t *testing.T) {
		if a, b := key(t, `{"a":1,"b":[2]}`), key(t, `{ "b":[2.0],"a":1 }`); a != b || a != `{"a":1,"b":[2]}` {
			t.Errorf("got %s and %s", a, b)
		}
		if got := key(t, `[1]`); got != `[1]` {
			t.Errorf("got %s", got)
		}
	})

	t.Run("takes the JSON of a struct", func(t *testing.T) {
		for _, c := range []struct {
			args   later.Args
			fields []string
			want   string
		}{
			{syncJob{Account: 7, X: 1}, []string{"account"}, `{"account":7}`},
			{&syncJob{Account: 7}, []string{"account", "x"}, `{"account":7}`},
			{syncJob{Plain: "p"}, []string{"Plain", "inner"}, `{"Plain":"p"}`},
		} {
			if got, err := later.PayloadKey(c.args, c.fields...); err != nil || got != c.want {
				t.Errorf("%+v by %v: got %s, %v, want %s", c.args, c.fields, got, err, c.want)
			}
		}
	})

	// A name that is misspelt would make all jobs one.
	t.Run("refuses what cannot be meant", func(t *testing.T) {
		raw := func(payload string) later.Args { return later.RawArgs{JobKind: "k", Payload: []byte(payload)} }
		for name, c := range map[string]struct {
			args   later.Args
			fields []string
			field  string
		}{
			"a field that the struct does not have":   {syncJob{}, []string{"acount"}, "unique_key"},
			"a field that is not encoded":             {&syncJob{}, []string{"Hidden"}, "unique_key"},
			"the Go name of a field that has another": {syncJob{}, []string{"Account"}, "unique_key"},
			"fields of a payload that is no object":   {raw(`[1]`), []string{"a"}, "unique_key"},
			"fields of null":                          {raw(`null`), []string{"a"}, "unique_key"},
			"a payload that cannot be stored":         {raw(`{"a":"\u0000"}`), []string{"a"}, "payload"},
			"a payload that is no JSON":               {raw(`{"a":`), nil, "payload"},
			"nil":                                     {nil, nil, "args"},
		} {
			_, err := later.PayloadKey(c.args, c.fields...)
			var fault *later.FieldError
			if !errors.As(err, &fault) || fault.Field != c.field {
				t.Errorf("%s: got %v, want a fault of %s", name, err, c.field)
			}
		}
	})
}
