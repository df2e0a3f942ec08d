package later

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxPayloadBytes is the largest payload. Chosen: it leaves room below
	// MySQL's and MariaDB's default max_allowed_packet of 16 MiB.
	MaxPayloadBytes = 10 << 20

	// MaxPayloadDepth is the deepest nesting of arrays and objects in a
	// payload. SQLite's json_valid refuses more than 1,000 levels, Go's decoder
	// more than 10,000.
	MaxPayloadDepth = 500
)

// CheckPayload returns nil when payload can be stored and read back byte for
// byte by every store, and its strings and numbers mean the same to every
// reader: one JSON value (RFC 8259) in valid UTF-8, at most [MaxPayloadBytes]
// long and [MaxPayloadDepth] deep, in whose strings and keys no \u0000 and no
// lone surrogate occurs, and whose numbers fit into a float64's range (integers
// of any length are kept as written). Repeated keys are kept as they are.
// Otherwise the error is a [FieldError] that names the place.
func CheckPayload(payload []byte) error { return checkPayload(payload, false) }

// checkPayload is [CheckPayload]; valid says that payload is known to be valid JSON, and
// spares nearly half of the time that a [Build] takes.
func checkPayload(payload []byte, valid bool) error {
	fault := func(path, reason string) error {
		return &FieldError{Field: "payload", Path: path, Reason: reason}
	}
	if len(payload) > MaxPayloadBytes {
		return fault("", fmt.Sprintf("has %d bytes, at most %d are allowed", len(payload), MaxPayloadBytes))
	}
	if !utf8.Valid(payload) {
		return fault("", "is not valid UTF-8")
	}
	if len(bytes.TrimSpace(payload)) == 0 {
		return fault("", "is empty; the least payload is {}")
	}
	if isPlain(payload) && (valid || json.Valid(payload)) {
		return nil
	}
	w := payloadWalk{data: payload, dec: json.NewDecoder(bytes.NewReader(payload))}
	w.dec.UseNumber()
	if path, reason := w.walk(); reason != "" {
		return fault(path, reason)
	}
	return nil
}

// isPlain reports whether payload has none of what needs the slow walk: \u
// escapes, exponents, very long numbers, deep nesting. Nearly all payloads are
// plain, and this one pass costs a tenth of the walk.
func isPlain(payload []byte) bool {
	depth, digits, inString := 0, 0, false
	for i := 0; i < len(payload); i++ {
		c := payload[i]
		if inString {
			switch c {
			case '\\':
				i++
				if i < len(payload) && payload[i] == 'u' {
					return false
				}
			case '"':
				inString = false
			}
			continue
		}
		switch {
		case c >= '0' && c <= '9':
			digits++
		case (c == 'e' || c == 'E') && digits > 0:
			return false
		default:
			digits = 0
		}
		switch c {
		case '"':
			inString = true
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > MaxPayloadDepth || digits > 300 {
			return false
		}
	}
	return true
}

// payloadWalk goes through a payload token by token and remembers where it is.
type payloadWalk struct {
	data  []byte
	dec   *json.Decoder
	stack []payloadLevel
}

type payloadLevel struct {
	object bool
	key    string // of the value that comes next, in an object
	inKey  bool   // the next token is a key
	index  int    // of the value that comes next, in an array
}

// walk returns where the first fault is and what it is, or no reason.
func (w *payloadWalk) walk() (path, reason string) {
	seen := false
	for {
		start := w.dec.InputOffset()
		token, err := w.dec.Token()
		if err == io.EOF && seen && len(w.stack) == 0 {
			return "", ""
		}
		if err != nil {
			return w.path(), jsonReason(err)
		}
		if seen && len(w.stack) == 0 {
			return "", "has more than one JSON value"
		}
		seen = true
		raw := w.data[start:w.dec.InputOffset()]
		switch t := token.(type) {
		case json.Delim:
			if reason := w.delim(t); reason != "" {
				return w.path(), reason
			}
			continue
		case string:
			if w.top() != nil && w.top().inKey {
				w.top().key, w.top().inKey = t, false
				if reason := stringReason(raw); reason != "" {
					return w.path(), "the key " + reason
				}
				continue
			}
			if reason := stringReason(raw); reason != "" {
				return w.path(), reason
			}
		case json.Number:
			if f, err := strconv.ParseFloat(t.String(), 64); err != nil || math.IsInf(f, 0) {
				return w.path(), "the number " + ClipText(t.String(), 40) + " is outside the range of a 64-bit float"
			}
		}
		w.next()
	}
}

func (w *payloadWalk) delim(d json.Delim) (reason string) {
	switch d {
	case '{', '[':
		if len(w.stack) == MaxPayloadDepth {
			return fmt.Sprintf("is nested more than %d levels deep", MaxPayloadDepth)
		}
		w.stack = append(w.stack, payloadLevel{object: d == '{', inKey: d == '{'})
	default:
		w.stack = w.stack[:len(w.stack)-1]
		w.next()
	}
	return ""
}

// next steps past a value that has ended.
func (w *payloadWalk) next() {
	if top := w.top(); top != nil {
		top.index++
		top.inKey = top.object
	}
}

func (w *payloadWalk) top() *payloadLevel {
	if len(w.stack) == 0 {
		return nil
	}
	return &w.stack[len(w.stack)-1]
}

// path is the place of the current value as a JSON path, cut where it is long.
func (w *payloadWalk) path() string {
	var b strings.Builder
	b.WriteString("$")
	for _, level := range w.stack {
		switch {
		case level.object && !level.inKey:
			b.WriteString("." + CleanText(level.key, 60))
		case !level.object:
			fmt.Fprintf(&b, "[%d]", level.index)
		}
		if b.Len() > 300 {
			b.WriteString("…")
			break
		}
	}
	return b.String()
}

func jsonReason(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "is not valid JSON: it ends too early"
	}
	return "is not valid JSON: " + err.Error()
}

// stringReason looks at a string as it was written, escapes and all: what the
// decoder makes of a lone surrogate (U+FFFD) no longer shows it.
func stringReason(raw []byte) string {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if i >= len(raw) || raw[i] != 'u' {
			continue
		}
		unit := hexUnit(raw, i+1)
		i += 4
		switch {
		case unit == 0:
			return `has \u0000, which Postgres cannot store as text`
		case unit >= 0xdc00 && unit <= 0xdfff:
			return fmt.Sprintf(`has the lone surrogate \u%04x`, unit)
		case unit >= 0xd800 && unit <= 0xdbff:
			low := -1
			if i+2 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
				low = hexUnit(raw, i+3)
			}
			if low < 0xdc00 || low > 0xdfff {
				return fmt.Sprintf(`has the lone surrogate \u%04x`, unit)
			}
			i += 6
		}
	}
	return ""
}

// hexUnit reads the four hexadecimal digits at raw[at:], or returns -1.
func hexUnit(raw []byte, at int) int {
	if at+4 > len(raw) {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[at:at+4]), 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

// encodePayload is the JSON of args, without the escapes for HTML that
// json.Marshal adds. What the encoder made is valid: it checks what a MarshalJSON or a
// RawMessage within args brings.
func encodePayload(args Args) (payload json.RawMessage, valid bool, err error) {
	switch raw := args.(type) {
	case RawArgs:
		return raw.Payload, false, nil
	case *RawArgs: // it has the method Kind too
		return raw.Payload, false, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(args); err != nil {
		return nil, false, &FieldError{Field: "payload", Reason: "cannot be encoded: " + err.Error()}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), true, nil
}

// isNil reports whether args is nil or a nil pointer, on which Kind may panic.
func isNil(args Args) bool {
	if args == nil {
		return true
	}
	v := reflect.ValueOf(args)
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan, reflect.Interface:
		return v.IsNil()
	default:
		return false
	}
}
