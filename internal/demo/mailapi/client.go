package mailapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Patience is how long a [Client] waits for an answer. Chosen: several times
// what a healthy call takes, so that a busy machine is not taken for a fault.
const Patience = 2500 * time.Millisecond

// Client calls the service. It is safe for concurrent use.
type Client struct {
	url, caller string
	http        *http.Client
}

// NewClient returns a client for the service at url. caller is the name under
// which the service knows it.
func NewClient(url, caller string) *Client {
	return &Client{url: url, caller: caller, http: &http.Client{Timeout: Patience}}
}

// Refusal is an answer that is not a success.
type Refusal struct {
	Status     int
	RetryAfter time.Duration // 0: not said
	Text       string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("mail service: %d %s: %s", r.Status, http.StatusText(r.Status), r.Text)
}

// Final reports whether the service will never accept this mail.
func (r *Refusal) Final() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return r.Status >= 400 && r.Status < 500
	}
}

// maxRetryAfter bounds what a service may ask for. Chosen, not measured.
const maxRetryAfter = time.Hour

// Send sends the mail and returns the service's id for it. Two calls with the
// same key send one mail. After any error but a [Refusal] under 500 the mail may
// have been sent.
func (c *Client) Send(ctx context.Context, key string, mail Mail) (id string, err error) {
	body, err := json.Marshal(mail)
	if err != nil {
		return "", fmt.Errorf("mail service: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/mails", bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("mail service: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("User-Agent", c.caller)
	answer, err := c.http.Do(request)
	if err != nil {
		return "", fmt.Errorf("mail service: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return "", fmt.Errorf("mail service: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return "", &Refusal{
			Status:     answer.StatusCode,
			RetryAfter: retryAfter(answer.Header.Get("Retry-After")),
			Text:       strings.TrimSpace(string(text)),
		}
	}
	var sent Mail
	if err := json.Unmarshal(text, &sent); err != nil {
		return "", fmt.Errorf("mail service: its answer: %w", err)
	}
	return sent.ID, nil
}

// retryAfter reads the header of that name in its form as seconds; 0 is
// everything else.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.ParseUint(header, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
