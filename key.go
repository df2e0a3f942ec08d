package later

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"slices"
	"strings"
)

// KeyOf makes a key of values: the same for equal values, and different for all
// others. It is a JSON array of them in one way of writing: without spaces, with the
// names of objects sorted, and with numbers by their value, so that 1, 1.0 and 1e0
// are one number, and "1" is none. nil is null. Beyond [MaxKeyBytes] it is the
// text's SHA-256 in hexadecimal behind "sha256:".
//
// Values are encoded as encoding/json does, with the rules of [CheckPayload]; what
// those refuse is a [FieldError], text that is not valid UTF-8 too. Of a name that
// occurs twice in an object the last value counts.
func KeyOf(parts ...any) (string, error) {
	if parts == nil {
		parts = []any{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(parts); err != nil {
		return "", keyFault("cannot be encoded: %v", err)
	}
	// The encoder writes what is not text so, and U+FFFD itself as it is: two texts
	// would have one key.
	if bytes.Contains(b.Bytes(), []byte(`\ufffd`)) {
		return "", keyFault("has text that is not valid UTF-8")
	}
	if err := checkKeyValue(b.Bytes()); err != nil {
		return "", err
	}
	return keyText(b.Bytes())
}

// PayloadKey makes a key of the payload that args has when it is enqueued: of the
// named fields of its top level, or without names of all of it. Other fields do not
// count, nor does the order of the names. Values are compared as [KeyOf] does. A field
// that is absent (omitempty) and one that is null differ.
//
// The error is a [FieldError] when the payload cannot be stored or is no object, and
// when args is a struct that has no such field, because a name that is misspelt would
// make all jobs one.
func PayloadKey(args Args, fields ...string) (string, error) {
	if isNil(args) {
		return "", &FieldError{Field: "args", Reason: "is nil"}
	}
	payload, valid, err := encodePayload(args)
	if err == nil {
		err = checkPayload(payload, valid)
	}
	if err != nil {
		return "", err
	}
	if len(fields) == 0 {
		return keyText(payload)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(payload, &all); err != nil || all == nil {
		return "", keyFault("takes fields of the payload, which is no JSON object")
	}
	chosen := map[string]json.RawMessage{}
	for _, name := range fields {
		value, found := all[name]
		switch {
		case found:
			chosen[name] = value
		case !mayHaveField(args, name):
			return "", keyFault("takes the field %q, which the payload of a %T never has", name, args)
		}
	}
	text, err := json.Marshal(chosen)
	if err != nil {
		return "", keyFault("cannot be encoded: %v", err)
	}
	return keyText(text)
}

func keyFault(format string, args ...any) error {
	return &FieldError{Field: "unique_key", Reason: fmt.Sprintf(format, args...)}
}

// checkKeyValue is CheckPayload for what a key is made of.
func checkKeyValue(value []byte) error {
	var fault *FieldError
	if err := CheckPayload(value); errors.As(err, &fault) {
		return &FieldError{Field: "unique_key", Path: fault.Path, Reason: fault.Reason}
	}
	return nil
}

// mayHaveField reports whether the JSON of args may have a field of that name. Only of
// a struct with an encoding of its type's own it is known.
func mayHaveField(args Args, name string) bool {
	t := reflect.TypeOf(args)
	if t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return true
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[RawArgs]() || t.Kind() != reflect.Struct {
		return true
	}
	return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return tag == name || tag == "" && f.Name == name
	})
}

// keyText is JSON, which is valid, as a key.
func keyText(valid []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(valid))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil && err != io.EOF {
		return "", keyFault("cannot be read again: %v", err)
	}
	var b strings.Builder
	writeCanonical(&b, value)
	if b.Len() <= MaxKeyBytes {
		return b.String(), nil
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// writeCanonical writes a decoded value in the one way that is a key. What it writes
// is JSON.
func writeCanonical(b *strings.Builder, value any) {
	switch v := value.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		fmt.Fprint(b, v)
	case json.Number:
		b.WriteString(canonicalNumber(v.String()))
	case string:
		writeCanonicalText(b, v)
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonical(b, item)
		}
		b.WriteByte(']')
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonicalText(b, name)
			b.WriteByte(':')
			writeCanonical(b, v[name])
		}
		b.WriteByte('}')
	}
}

// writeCanonicalText writes a JSON string in which every control character is an
// escape, also those that JSON would let stand.
func writeCanonicalText(b *strings.Builder, text string) {
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r >= 0x7f && r <= 0x9f:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// plainDigits is how long an integer is written without an exponent: as long as a
// 64-bit one is.
const plainDigits = 20

// canonicalNumber writes a JSON number by its value, exactly: an integer in digits,
// anything else as the shortest integer times a power of ten.
func canonicalNumber(text string) string {
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	text, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent := new(big.Int)
	exponent.SetString(strings.TrimPrefix(power, "+"), 10) // stays 0 of nothing
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	short := strings.TrimRight(digits, "0")
	exponent.Add(exponent, big.NewInt(int64(len(digits)-len(short)-len(fraction))))
	if exponent.Sign() >= 0 && exponent.Cmp(big.NewInt(int64(plainDigits-len(short)))) <= 0 {
		return sign + short + strings.Repeat("0", int(exponent.Int64()))
	}
	return sign + short + "e" + exponent.String()
}
