package endpoint

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Standard Webhooks 1.0.0: names of headers, form of secrets, length of keys.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"

	keyPrefix   = "whsec_"
	minKeyBytes = 24
	maxKeyBytes = 64
)

// DefaultTolerance is how old or how far in the future a request may be, as in
// the specification's own libraries.
const DefaultTolerance = 5 * time.Minute

// maxSignatures bounds the work that a request can cause. Chosen: two keys and
// two schemes make four.
const maxSignatures = 16

// ErrSignature is matched by every error of [Verify] that is the request's
// fault: answer it with 401.
var ErrSignature = errors.New("signature does not verify")

// NewKey returns a fresh random key of 32 bytes in the form that [Config.Keys]
// wants.
func NewKey() string {
	var key [32]byte
	rand.Read(key[:]) // never fails (crypto/rand)
	return keyPrefix + base64.StdEncoding.EncodeToString(key[:])
}

// Verify returns nil when the request was signed with one of keys, no longer
// than tolerance ago and no further than that in the future (0 is
// [DefaultTolerance]), and with just this body: give it the bytes that were
// received, not a JSON value that was decoded and encoded again. Otherwise the
// error matches [ErrSignature], unless a key or the tolerance is wrong. Keys are
// compared in constant time. Several keys are for the time in which one
// replaces another.
//
// Within the tolerance a captured request still verifies when it is sent again:
// a receiver remembers the Webhook-Id of what it has done, in the same
// transaction as the effect.
func Verify(r *http.Request, body []byte, keys []string, tolerance time.Duration) error {
	parsed, err := parseKeys(keys)
	if err != nil {
		return err
	}
	if len(parsed) == 0 {
		return errors.New("endpoint: no key to verify with")
	}
	if tolerance < 0 {
		return fmt.Errorf("endpoint: tolerance is %v; it must not be negative", tolerance)
	}
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	id, err := oneValue(r.Header, headerID)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if strings.Contains(id, ".") {
		// What is signed is id.timestamp.body: a dot would let one text be
		// read in two ways.
		return fmt.Errorf("%w: %s has a dot", ErrSignature, headerID)
	}
	timestamp, err := verifyTimestamp(r.Header, tolerance)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	given := parseSignatures(r.Header.Values(headerSignature))
	if len(given) == 0 {
		return fmt.Errorf("%w: %s has none of version v1", ErrSignature, headerSignature)
	}
	match := false
	for _, key := range parsed {
		want := mac(key, id, timestamp, body)
		for _, got := range given {
			match = hmac.Equal(got, want) || match
		}
	}
	if !match {
		return fmt.Errorf("%w: none of the signatures is of this body and one of the keys", ErrSignature)
	}
	return nil
}

func verifyTimestamp(h http.Header, tolerance time.Duration) (int64, error) {
	text, err := oneValue(h, headerTimestamp)
	if err != nil {
		return 0, err
	}
	// Only digits: ParseInt would also take a sign, and the text is what is signed.
	timestamp, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(timestamp, 10) != text || timestamp < 0 {
		return 0, fmt.Errorf("%s is no number of seconds", headerTimestamp)
	}
	age := time.Since(time.Unix(timestamp, 0))
	if age > tolerance {
		return 0, fmt.Errorf("%s is more than %v old", headerTimestamp, tolerance)
	}
	if age < -tolerance {
		return 0, fmt.Errorf("%s is more than %v in the future", headerTimestamp, tolerance)
	}
	return timestamp, nil
}

// parseSignatures returns the well-formed signatures of version v1; others,
// such as v1a, are of schemes that this package does not know.
func parseSignatures(values []string) [][]byte {
	var signatures [][]byte
	for _, value := range values {
		for field := range strings.SplitSeq(value, " ") {
			encoded, ok := strings.CutPrefix(field, "v1,")
			if !ok || len(encoded) != base64.StdEncoding.EncodedLen(sha256.Size) {
				continue
			}
			signature, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				continue
			}
			if signatures = append(signatures, signature); len(signatures) == maxSignatures {
				return signatures
			}
		}
	}
	return signatures
}

// sign returns one signature as it stands in the header.
func sign(key []byte, id string, timestamp int64, body []byte) string {
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, id, timestamp, body))
}

func mac(key []byte, id string, timestamp int64, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + strconv.FormatInt(timestamp, 10) + "."))
	h.Write(body)
	return h.Sum(nil)
}

// parseKeys decodes keys. Its error has no key in it.
func parseKeys(keys []string) ([][]byte, error) {
	parsed := make([][]byte, len(keys))
	for i, text := range keys {
		encoded, ok := strings.CutPrefix(text, keyPrefix)
		if !ok {
			return nil, fmt.Errorf("endpoint: key %d does not begin with %s", i+1, keyPrefix)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("endpoint: key %d is not base64 after %s", i+1, keyPrefix)
		}
		if len(key) < minKeyBytes || len(key) > maxKeyBytes {
			return nil, fmt.Errorf("endpoint: key %d has %d bytes; it goes from %d to %d", i+1, len(key), minKeyBytes, maxKeyBytes)
		}
		parsed[i] = key
	}
	return parsed, nil
}
