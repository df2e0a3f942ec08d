package endpoint

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/later-queue/later"
)

// setHeader fills in a request's headers.
func (t *target) setHeader(h http.Header, job *later.Job[json.RawMessage], now time.Time) {
	for name, values := range t.header {
		h[name] = slices.Clone(values)
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "later")
	}
	h.Set("Content-Type", "application/json")
	id := job.IdempotencyKey()
	h.Set("Idempotency-Key", id)
	h.Set(headerID, id)
	h.Set(headerTimestamp, strconv.FormatInt(now.Unix(), 10))
	if len(t.keys) > 0 {
		signatures := make([]string, len(t.keys))
		for i, key := range t.keys {
			signatures[i] = sign(key, id, now.Unix(), job.Payload)
		}
		h.Set(headerSignature, strings.Join(signatures, " "))
	}
	h.Set("Later-Job-Id", strconv.FormatInt(job.ID, 10))
	h.Set("Later-Kind", job.Kind)
	h.Set("Later-Queue", job.Queue)
	h.Set("Later-Attempt", strconv.Itoa(job.Attempt))
	h.Set("Later-Max-Attempts", strconv.Itoa(job.MaxAttempts))
	if job.Tenant != "" {
		h.Set("Later-Tenant", url.PathEscape(job.Tenant))
	}
	if len(job.Headers) > 0 {
		h.Set("Later-Headers", asciiJSON(job.Headers))
	}
	// The names of W3C Trace Context, which every tracing library reads.
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := job.Headers[name]; value != "" && isHeaderValue(value) {
			h.Set(name, value)
		}
	}
}

// asciiJSON is v as JSON without a byte that a header must not have.
func asciiJSON(v map[string]string) string {
	data, _ := json.Marshal(v) // a map of strings always encodes
	var b strings.Builder
	for _, r := range string(data) {
		switch {
		case r < 0x7f: // JSON has no control characters outside of escapes
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}

// ownHeaders are set by this package or by net/http.
var ownHeaders = []string{"Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Host", "Idempotency-Key"}

// checkHeader returns a copy of header with canonical names.
func checkHeader(header http.Header) (http.Header, error) {
	checked := http.Header{}
	for name, values := range header {
		canonical := http.CanonicalHeaderKey(name)
		if !isHeaderName(name) {
			return nil, fmt.Errorf("endpoint: Header has %q, which is no header's name", later.CleanText(name, 60))
		}
		if slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Webhook-") || strings.HasPrefix(canonical, "Later-") {
			return nil, fmt.Errorf("endpoint: Header has %s, which is set for each request", canonical)
		}
		for _, value := range values {
			if !isHeaderValue(value) {
				return nil, fmt.Errorf("endpoint: Header %s has a line break or another control character", canonical)
			}
			checked.Add(canonical, value)
		}
	}
	return checked, nil
}

// isHeaderName: a token of RFC 9110, 5.6.2.
func isHeaderName(name string) bool {
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return name != ""
}

func isHeaderValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// secretsOf lists what must not appear in an error, the longest first.
func secretsOf(u *url.URL, header http.Header, keys []string) []string {
	secrets := slices.Clone(keys)
	for _, values := range header {
		for _, value := range values {
			secrets = append(secrets, value)
			// "Bearer abc": the scheme is no secret, what follows is.
			if _, token, ok := strings.Cut(value, " "); ok {
				secrets = append(secrets, token)
			}
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password, u.User.String(),
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	secrets = append(secrets, u.RawQuery)
	for _, values := range u.Query() {
		for _, value := range values {
			secrets = append(secrets, value, url.QueryEscape(value))
		}
	}
	// Shorter ones would only blacken what a person needs to read.
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < 4 })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(secrets)
}

var errNoHeader = errors.New("is missing or given twice")

// oneValue returns the value of a header that must occur exactly once.
func oneValue(h http.Header, name string) (string, error) {
	if values := h.Values(name); len(values) == 1 && values[0] != "" {
		return values[0], nil
	}
	return "", fmt.Errorf("%s %w", name, errNoHeader)
}
