// Package endpoint runs jobs by an HTTP request, so that a worker serves any
// language: the payload is POSTed, signed, and the answer's status decides what
// becomes of the job.
//
//	run, err := endpoint.New(endpoint.Config{
//		URL:  "https://app.example/jobs/welcome",
//		Keys: []string{os.Getenv("WEBHOOK_KEY")},
//	})
//	later.HandleRaw(handlers, "welcome", later.HandlerConfig{}, run)
//
// # The request
//
// A POST whose body is the payload, byte for byte as it was enqueued, with these
// headers besides Content-Type: application/json:
//
//	Webhook-Id           the same for all attempts of the job: the idempotency key
//	Webhook-Timestamp    when this request was signed, in seconds since 1970
//	Webhook-Signature    v1,BASE64, once for each key, separated by spaces
//	Idempotency-Key      the same value as Webhook-Id
//	Later-Job-Id, Later-Kind, Later-Queue
//	Later-Attempt        1 is the first
//	Later-Max-Attempts   2147483647 is unlimited
//	Later-Tenant         percent-encoded; absent when the job has none
//	Later-Headers        the job's headers: a JSON object in ASCII; absent when it has none
//
// and traceparent and tracestate when the job's headers have them. The three
// Webhook headers are those of the Standard Webhooks specification 1.0.0, whose
// libraries exist for most languages; a receiver in Go has [Verify]. Only the id,
// the timestamp and the body are signed: what decides about rights belongs into
// the payload.
//
// # The answer
//
//	2xx                        the job is done
//	408, 425, 429, 5xx         a failed attempt, retried: after Retry-After if there is a
//	                           valid one, else after the backoff's delay
//	  … with Later-Snooze      the job is put off; this attempt is not counted
//	any other 4xx              the job is dead at once, but for those in [Config.Retry]
//	3xx                        the job is dead at once (see [Config.AllowRedirects])
//	anything else              a failed attempt, retried
//	no answer, a cut answer    a failed attempt, retried
//
// Retry-After and Later-Snooze are a whole number of seconds or an HTTP date (RFC
// 9110, 10.2.3). They count as from [MinDelay] to [MaxDelay]; up to a fifth is
// added, so that jobs that were put off together do not come back together. A
// value that is neither, is negative, or a date that has passed is ignored.
//
// The error that is kept with the job has the method, the host, the status and
// the beginning of the answer's body: no path, query, password or header.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/later-queue/later"
)

const (
	// DefaultMaxPerHost is how many requests to one host run at once. Chosen,
	// not measured: a worker's slots should outnumber it.
	DefaultMaxPerHost = 8
	// DefaultMaxResponse is how much of an answer's body is read. Chosen: an
	// error needs [MaxErrorBody] of it; the rest lets a connection be used
	// again after a usual answer.
	DefaultMaxResponse = 64 << 10
)

// Config says where to send jobs. Only URL must be set.
type Config struct {
	// URL is http or https. A user and password in it are sent as basic
	// authentication; a fragment is dropped.
	URL string
	// Keys sign the requests, each of them every request: give the new key
	// first and the old one second while receivers change from one to the
	// other. Without keys requests are not signed. [NewKey] makes one.
	Keys []string
	// Header is sent with each request. Its values are kept out of errors. The
	// headers that this package sets itself are refused.
	Header http.Header
	// AllowPrivate lets requests go to addresses that are not public:
	// loopback, private and link-local networks, cloud metadata services. By
	// default they are refused, after the name was resolved and for each
	// connection, so that a name which changes its address gains nothing.
	AllowPrivate bool
	// AllowRedirects follows answers 307 and 308 on the same host, at most
	// five in a row, never from https to http. All other redirects are
	// failures.
	AllowRedirects bool
	// Retry are statuses from 400 to 499 that are retried besides 408, 425
	// and 429: 409, say, for a receiver that answers it while an earlier
	// attempt of the same job is still running.
	Retry []int
	// MaxPerHost is how many requests of this process to the URL's host may run
	// at once, those of other handlers included; 0 is [DefaultMaxPerHost], a
	// negative value is no limit. Set it below the worker's slots, so that
	// one slow host cannot hold all of them. A job that finds the host busy
	// is snoozed, for about as long as the host needs to come to it.
	MaxPerHost int
	// MaxResponse is how many bytes of an answer's body are read; 0 is
	// [DefaultMaxResponse]. A longer one does no harm: the status counts.
	MaxResponse int
	// Transport makes the requests; nil is one of this package's own, which
	// uses no proxy. Addresses are checked by the latter only, so Transport
	// needs AllowPrivate.
	Transport http.RoundTripper
}

// New returns a handler for [later.HandleRaw] that sends one request for each
// attempt. A request ends with the handler's context, and no later than the job's
// timeout. It is safe for concurrent use. The error says which field of config
// is wrong; it has no secret of it.
func New(config Config) (func(ctx context.Context, job *later.Job[json.RawMessage]) error, error) {
	t := &target{gate: hosts, maxPerHost: config.MaxPerHost, maxResponse: config.MaxResponse}
	if t.maxPerHost == 0 {
		t.maxPerHost = DefaultMaxPerHost
	}
	if t.maxResponse == 0 {
		t.maxResponse = DefaultMaxResponse
	}
	if t.maxResponse < 0 {
		return nil, fmt.Errorf("endpoint: MaxResponse is %d; it must not be negative", config.MaxResponse)
	}
	for _, status := range config.Retry {
		if status < 400 || status > 499 {
			return nil, fmt.Errorf("endpoint: Retry has %d; it goes from 400 to 499", status)
		}
	}
	t.retry = slices.Clone(config.Retry)
	if config.Transport != nil && !config.AllowPrivate {
		return nil, errors.New("endpoint: Transport is set, so that private addresses cannot be refused; set AllowPrivate too")
	}
	var err error
	if t.url, err = parseURL(config.URL, config.AllowPrivate); err != nil {
		return nil, err
	}
	if t.keys, err = parseKeys(config.Keys); err != nil {
		return nil, err
	}
	if t.header, err = checkHeader(config.Header); err != nil {
		return nil, err
	}
	t.secrets = secretsOf(t.url, t.header, config.Keys)
	t.client = &http.Client{Transport: config.Transport, CheckRedirect: refuseRedirect}
	if config.Transport == nil {
		t.client.Transport = newTransport(config.AllowPrivate, max(t.maxPerHost, DefaultMaxPerHost))
	}
	if config.AllowRedirects {
		t.client.CheckRedirect = followOnHost
	}
	return t.run, nil
}

// target is a checked Config.
type target struct {
	url         *url.URL
	keys        [][]byte
	header      http.Header
	retry       []int
	secrets     []string
	client      *http.Client
	gate        *gate
	maxPerHost  int
	maxResponse int
}

func (t *target) run(ctx context.Context, job *later.Job[json.RawMessage]) error {
	timeout := job.Timeout
	if timeout <= 0 {
		timeout = later.DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, later.ErrTimeout)
	defer cancel()

	leave, busy := t.gate.enter(ctx, t.url.Host, t.maxPerHost)
	if leave == nil && ctx.Err() != nil {
		return fmt.Errorf("POST %s: %w", t.url.Host, context.Cause(ctx))
	}
	if leave == nil {
		return later.Snooze(busy)
	}
	defer leave()
	answer, err := t.post(ctx, job)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("POST %s: %w", t.url.Host, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("POST %s: %w", t.url.Host, err)
	}
	return t.outcome(answer)
}

// answer is what of a response matters.
type answer struct {
	status int
	header http.Header
	body   []byte // at most maxResponse
}

func (t *target) post(ctx context.Context, job *later.Job[json.RawMessage]) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(job.Payload))
	if err != nil {
		return nil, withoutURL(err)
	}
	t.setHeader(req.Header, job, time.Now())
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	// Closing early ends the connection: a body without end is not read.
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(t.maxResponse)))
	if err != nil {
		return nil, fmt.Errorf("the answer %d broke off: %w", resp.StatusCode, err)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// withoutURL takes off the URL that net/http and net/url put before an error.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func parseURL(text string, allowPrivate bool) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("endpoint: URL: %w", withoutURL(err))
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("endpoint: URL must begin with http:// or https://")
	}
	if u.Hostname() == "" {
		return nil, errors.New("endpoint: URL has no host")
	}
	u.Fragment, u.RawFragment = "", ""
	if !allowPrivate {
		if err := checkHost(u.Hostname()); err != nil {
			return nil, fmt.Errorf("endpoint: URL: %w (set AllowPrivate if it is meant)", err)
		}
	}
	return u, nil
}

// newTransport is net/http's with limits, and without a proxy: behind one, the
// proxy would resolve the name, and its address could not be checked.
func newTransport(allowPrivate bool, idle int) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	if !allowPrivate {
		dialer.Control = refusePrivate
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true, // a DialContext switches it off
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second, // as http.DefaultTransport
		MaxIdleConns:        idle,
		MaxIdleConnsPerHost: idle,
		// Nothing but the status and two headers matters.
		MaxResponseHeaderBytes: 64 << 10,
		// A compressed body could be far longer than what was sent.
		DisableCompression: true,
	}
}

// refuseRedirect makes the redirect itself the answer.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// followOnHost follows redirects that keep the method and the body, and that
// take what is sent, secrets included, to nobody else.
func followOnHost(next *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	status := next.Response.StatusCode
	keeps := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	same := strings.EqualFold(next.URL.Hostname(), from.Hostname()) &&
		(next.URL.Scheme == from.Scheme && next.URL.Port() == from.Port() ||
			from.Scheme == "http" && next.URL.Scheme == "https")
	if !keeps || !same || len(via) > 5 {
		return http.ErrUseLastResponse
	}
	return nil
}
