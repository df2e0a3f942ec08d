package endpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/endpoint"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

func newJob(payload string) *later.Job[json.RawMessage] {
	return &later.Job[json.RawMessage]{
		Claimed: &later.Claimed{Record: later.Record{
			ID: 42, Queue: "mail", Kind: "welcome", Attempt: 2, MaxAttempts: 5, Generation: 1, Timeout: patience,
		}},
		Payload: json.RawMessage(payload),
	}
}

// serve answers with handler at a URL on 127.0.0.1.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// newRun returns a handler for config, private addresses allowed.
func newRun(t *testing.T, config endpoint.Config) func(context.Context, *later.Job[json.RawMessage]) error {
	t.Helper()
	config.AllowPrivate = true
	run, err := endpoint.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func send(t *testing.T, config endpoint.Config, job *later.Job[json.RawMessage]) error {
	t.Helper()
	return newRun(t, config)(t.Context(), job)
}

// received is a request with its body.
type received struct {
	*http.Request
	body []byte
}

// record answers 204 and keeps the request.
func record(t *testing.T, into *received) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*into = received{r, body}
	}
}

func TestRequest(t *testing.T) {
	t.Run("it is a POST of the payload's exact bytes", func(t *testing.T) {
		// Case 5: big numbers keep their digits. Case 8: order and repeats stay.
		payload := `{"bb":1, "a":2,"a":3,"id":9223372036854775807,"c":1.10,"s":"café \u00e9<>&"}`
		var got received
		if err := send(t, endpoint.Config{URL: serve(t, record(t, &got)) + "/jobs?x=1"}, newJob(payload)); err != nil {
			t.Fatal(err)
		}
		if got.Method != http.MethodPost || got.URL.String() != "/jobs?x=1" {
			t.Errorf("got %s %s, want POST /jobs?x=1", got.Method, got.URL)
		}
		if string(got.body) != payload {
			t.Errorf("got %s, want %s", got.body, payload)
		}
		if got.ContentLength != int64(len(payload)) {
			t.Errorf("got the length %d, want %d", got.ContentLength, len(payload))
		}
	})
	t.Run("its headers tell what is known of the job", func(t *testing.T) {
		var got received
		config := endpoint.Config{URL: serve(t, record(t, &got)), Header: http.Header{"authorization": {"Bearer abc"}, "X-Two": {"1", "2"}}}
		job := newJob(`{}`)
		job.Headers = map[string]string{
			"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b",
			"note": "café 😀 \n\x7f",
		}
		if err := send(t, config, job); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", "User-Agent": "later", "Authorization": "Bearer abc",
			"Idempotency-Key": job.IdempotencyKey(), "Webhook-Id": job.IdempotencyKey(),
			"Later-Job-Id": "42", "Later-Kind": "welcome", "Later-Queue": "mail",
			"Later-Attempt": "2", "Later-Max-Attempts": "5",
			"Traceparent": job.Headers["traceparent"], "Tracestate": "a=b",
		} {
			if values := got.Header.Values(name); len(values) != 1 || values[0] != want {
				t.Errorf("%s: got %q, want %q", name, values, want)
			}
		}
		if values := got.Header.Values("X-Two"); len(values) != 2 {
			t.Errorf("X-Two: got %q, want both values", values)
		}
		for _, name := range []string{"Later-Tenant", "Webhook-Signature"} {
			if values := got.Header.Values(name); len(values) != 0 {
				t.Errorf("%s: got %q, want none", name, values)
			}
		}
		var headers map[string]string
		if err := json.Unmarshal([]byte(got.Header.Get("Later-Headers")), &headers); err != nil {
			t.Fatal(err)
		}
		if headers["note"] != job.Headers["note"] || len(headers) != 3 {
			t.Errorf("got %q, want %q", headers, job.Headers)
		}
	})
	t.Run("every tenant arrives", func(t *testing.T) {
		// Case 16: what CheckTenant lets in works in a header too.
		for _, tenant := range []string{
			`a'b`, `a"b`, "a`b", `a;drop table jobs--`, `a%b_c`, `a\b`, `foo/bar.baz`, `..`, `a?b#c`, `queue+name`, `a b`,
			`a:b`, `{a}`, "caf\u00e9", "cafe\u0301", `😀`, `*`, `%20`, strings.Repeat("é", later.MaxTenantBytes/2),
		} {
			if err := later.CheckTenant(tenant); err != nil {
				t.Fatal(err)
			}
			var got received
			job := newJob(`{}`)
			job.Tenant = tenant
			if err := send(t, endpoint.Config{URL: serve(t, record(t, &got))}, job); err != nil {
				t.Errorf("%q: %v", tenant, err)
				continue
			}
			header := got.Header.Get("Later-Tenant")
			if strings.Trim(header, "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "" {
				t.Errorf("%q: got %q, which is not visible ASCII", tenant, header)
			}
			if decoded, err := url.PathUnescape(header); err != nil || decoded != tenant {
				t.Errorf("%q: got %q, %v from %q", tenant, decoded, err, header)
			}
		}
	})
	t.Run("a job's header that HTTP cannot carry does not fail the job", func(t *testing.T) {
		var got received
		job := newJob(`{}`)
		job.Headers = map[string]string{"traceparent": "a\r\nEvil: 1"}
		if err := send(t, endpoint.Config{URL: serve(t, record(t, &got))}, job); err != nil {
			t.Fatal(err)
		}
		if got.Header.Get("Evil") != "" || got.Header.Get("Traceparent") != "" {
			t.Errorf("got %q", got.Header)
		}
	})
	t.Run("a user in the URL is sent as basic authentication", func(t *testing.T) {
		var got received
		at := strings.Replace(serve(t, record(t, &got)), "http://", "http://me:pa%3Ass@", 1)
		if err := send(t, endpoint.Config{URL: at}, newJob(`{}`)); err != nil {
			t.Fatal(err)
		}
		if user, password, ok := got.BasicAuth(); !ok || user != "me" || password != "pa:ss" {
			t.Errorf("got %q, %q, %v", user, password, ok)
		}
	})
}

func TestNew(t *testing.T) {
	key := endpoint.NewKey()
	for _, c := range []struct {
		name   string
		config endpoint.Config
		want   string
	}{
		{"no URL", endpoint.Config{}, "endpoint: URL must begin with http:// or https://"},
		{"another scheme", endpoint.Config{URL: "ftp://a.example"}, "endpoint: URL must begin with http:// or https://"},
		{"no host", endpoint.Config{URL: "http:///x"}, "endpoint: URL has no host"},
		{"a broken URL", endpoint.Config{URL: "http://me:secret@a.example/%zz"}, `endpoint: URL: invalid URL escape "%zz"`},
		{"a loopback address", endpoint.Config{URL: "http://127.0.0.1:80/"}, "endpoint: URL: address is not public: 127.0.0.1"},
		{"a mapped address", endpoint.Config{URL: "http://[::ffff:10.0.0.1]/"}, "endpoint: URL: address is not public: "},
		{"localhost", endpoint.Config{URL: "http://LocalHost./"}, "endpoint: URL: address is not public: localhost"},
		{"a name under localhost", endpoint.Config{URL: "http://a.localhost/"}, "endpoint: URL: address is not public: a.localhost"},
		{"a key without its prefix", endpoint.Config{URL: "http://a.example", Keys: []string{key, key[6:]}}, "endpoint: key 2 does not begin with whsec_"},
		{"a key that is not base64", endpoint.Config{URL: "http://a.example", Keys: []string{"whsec_secret!"}}, "endpoint: key 1 is not base64 after whsec_"},
		{"a short key", endpoint.Config{URL: "http://a.example", Keys: []string{"whsec_c2VjcmV0"}}, "endpoint: key 1 has 6 bytes; it goes from 24 to 64"},
		{"a header of ours", endpoint.Config{URL: "http://a.example", Header: http.Header{"later-kind": {"x"}}}, "endpoint: Header has Later-Kind, which is set for each request"},
		{"a signature", endpoint.Config{URL: "http://a.example", Header: http.Header{"webhook-signature": {"x"}}}, "endpoint: Header has Webhook-Signature, which is set for each request"},
		{"a Host header", endpoint.Config{URL: "http://a.example", Header: http.Header{"Host": {"x"}}}, "endpoint: Header has Host, which is set for each request"},
		{"a header's name with a space", endpoint.Config{URL: "http://a.example", Header: http.Header{"a b": {"x"}}}, `endpoint: Header has "a b", which is no header's name`},
		{"a header with a line break", endpoint.Config{URL: "http://a.example", Header: http.Header{"A": {"secret\r\nB: c"}}}, "endpoint: Header A has a line break or another control character"},
		{"a status to retry that is none", endpoint.Config{URL: "http://a.example", Retry: []int{200}}, "endpoint: Retry has 200; it goes from 400 to 499"},
		{"a negative MaxResponse", endpoint.Config{URL: "http://a.example", MaxResponse: -1}, "endpoint: MaxResponse is -1; it must not be negative"},
		{"a Transport without AllowPrivate", endpoint.Config{URL: "http://a.example", Transport: http.DefaultTransport}, "endpoint: Transport is set, so that private"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			_, err := endpoint.New(c.config)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			// Case 200: the error is shown and logged.
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q has a secret in it", err)
			}
		})
	}
	t.Run("a Transport makes the requests", func(t *testing.T) {
		broken := errors.New("no network today")
		config := endpoint.Config{URL: "http://a.example", Transport: transport(func(*http.Request) (*http.Response, error) { return nil, broken })}
		if err := send(t, config, newJob(`{}`)); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
