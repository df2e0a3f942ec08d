package endpoint_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/later-queue/later/endpoint"
)

// reference is the example that the libraries of the Standard Webhooks
// specification are tested with.
var reference = struct{ key, id, timestamp, body, signature string }{
	"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
	`{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}

func referenceRequest() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("webhook-id", reference.id)
	r.Header.Set("webhook-timestamp", reference.timestamp)
	r.Header.Set("webhook-signature", reference.signature)
	return r
}

// atReference runs f at the reference's time and later.
func atReference(t *testing.T, after time.Duration, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		seconds, err := strconv.ParseInt(reference.timestamp, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(time.Unix(seconds, 0).Add(after))) // the bubble's clock
		f(t)
	})
}

// Case 205: a receiver can tell real calls from fake and from replayed ones.
func TestVerify(t *testing.T) {
	old, other := reference.key, endpoint.NewKey()
	verify := func(r *http.Request, keys ...string) error {
		return endpoint.Verify(r, []byte(reference.body), keys, 0)
	}
	t.Run("the specification's own example verifies", func(t *testing.T) {
		atReference(t, 0, func(t *testing.T) {
			if err := verify(referenceRequest(), reference.key); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a request verifies until the tolerance is over", func(t *testing.T) {
		for after, want := range map[time.Duration]bool{
			-5*time.Minute - time.Second: false, -5 * time.Minute: true, 5 * time.Minute: true, 5*time.Minute + time.Second: false, 10 * time.Minute: false,
		} {
			atReference(t, after, func(t *testing.T) {
				err := verify(referenceRequest(), reference.key)
				if (err == nil) != want || err != nil && !errors.Is(err, endpoint.ErrSignature) {
					t.Errorf("after %v: got %v, want %v", after, err, want)
				}
			})
		}
		atReference(t, 2*time.Second, func(t *testing.T) {
			if err := endpoint.Verify(referenceRequest(), []byte(reference.body), []string{old}, time.Second); !errors.Is(err, endpoint.ErrSignature) {
				t.Errorf("got %v, want %v", err, endpoint.ErrSignature)
			}
		})
	})
	t.Run("while keys rotate, either verifies", func(t *testing.T) {
		atReference(t, 0, func(t *testing.T) {
			if err := verify(referenceRequest(), other, old); err != nil {
				t.Error(err)
			}
			r := referenceRequest()
			r.Header.Set("webhook-signature", "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v1a,x v2,"+reference.signature[3:]+" "+reference.signature)
			if err := verify(r, old); err != nil {
				t.Error(err)
			}
		})
	})
	for name, change := range map[string]func(r *http.Request){
		"no id":                        func(r *http.Request) { r.Header.Del("webhook-id") },
		"another id":                   func(r *http.Request) { r.Header.Set("webhook-id", "msg_q") },
		"two ids":                      func(r *http.Request) { r.Header.Add("webhook-id", reference.id) },
		"no timestamp":                 func(r *http.Request) { r.Header.Del("webhook-timestamp") },
		"another timestamp":            func(r *http.Request) { r.Header.Set("webhook-timestamp", "1614265331") },
		"a timestamp with a sign":      func(r *http.Request) { r.Header.Set("webhook-timestamp", "+1614265330") },
		"a timestamp with a zero":      func(r *http.Request) { r.Header.Set("webhook-timestamp", "01614265330") },
		"a timestamp beyond all times": func(r *http.Request) { r.Header.Set("webhook-timestamp", "9223372036854775807") },
		"a timestamp that overflows":   func(r *http.Request) { r.Header.Set("webhook-timestamp", "9223372036854775808") },
		"a negative timestamp":         func(r *http.Request) { r.Header.Set("webhook-timestamp", "-5") },
		"no signature":                 func(r *http.Request) { r.Header.Del("webhook-signature") },
		"an empty signature":           func(r *http.Request) { r.Header.Set("webhook-signature", "v1,") },
		"a signature of no version":    func(r *http.Request) { r.Header.Set("webhook-signature", reference.signature[3:]) },
		"a signature of version v2":    func(r *http.Request) { r.Header.Set("webhook-signature", "v2,"+reference.signature[3:]) },
		"a changed signature":          func(r *http.Request) { r.Header.Set("webhook-signature", "v1,h"+reference.signature[4:]) },
		"a cut signature":              func(r *http.Request) { r.Header.Set("webhook-signature", reference.signature[:40]) },
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			atReference(t, 0, func(t *testing.T) {
				r := referenceRequest()
				change(r)
				if err := verify(r, old); !errors.Is(err, endpoint.ErrSignature) {
					t.Errorf("got %v, want %v", err, endpoint.ErrSignature)
				}
			})
		})
	}
	t.Run("a changed byte of the body is refused", func(t *testing.T) {
		atReference(t, 0, func(t *testing.T) {
			for i := range reference.body {
				body := []byte(reference.body)
				body[i] ^= 1
				if err := endpoint.Verify(referenceRequest(), body, []string{old}, 0); !errors.Is(err, endpoint.ErrSignature) {
					t.Errorf("byte %d: got %v, want %v", i, err, endpoint.ErrSignature)
				}
			}
		})
	})
	t.Run("an id with a dot is refused, although what is signed could be read so", func(t *testing.T) {
		atReference(t, 0, func(t *testing.T) {
			// Signed for the id "a" and the body "1614265330.1".
			secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(old, "whsec_"))
			if err != nil {
				t.Fatal(err)
			}
			h := hmac.New(sha256.New, secret)
			h.Write([]byte("a.1614265330.1614265330.1"))
			r := referenceRequest()
			r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
			r.Header.Set("webhook-id", "a")
			if err := endpoint.Verify(r, []byte("1614265330.1"), []string{old}, 0); err != nil {
				t.Error(err)
			}
			r.Header.Set("webhook-id", "a.1614265330")
			if err := endpoint.Verify(r, []byte("1"), []string{old}, 0); !errors.Is(err, endpoint.ErrSignature) {
				t.Errorf("got %v, want %v", err, endpoint.ErrSignature)
			}
		})
	})
	t.Run("another key is refused", func(t *testing.T) {
		atReference(t, 0, func(t *testing.T) {
			if err := verify(referenceRequest(), other); !errors.Is(err, endpoint.ErrSignature) {
				t.Errorf("got %v, want %v", err, endpoint.ErrSignature)
			}
		})
	})
	t.Run("a wrong key or tolerance is the receiver's own fault, and not the request's", func(t *testing.T) {
		for _, err := range []error{
			verify(referenceRequest()),
			verify(referenceRequest(), "whsec_"),
			verify(referenceRequest(), strings.TrimPrefix(old, "whsec_")),
			endpoint.Verify(referenceRequest(), nil, []string{old}, -1),
		} {
			if err == nil || errors.Is(err, endpoint.ErrSignature) {
				t.Errorf("got %v, want another error", err)
			}
		}
	})
}

// Case 205, 8: what the worker sends verifies, over the bytes that were sent.
func TestSigned(t *testing.T) {
	for _, payload := range []string{`{"bb":1,"a":2}`, `{"a":1,"a":2}`, ` [ 1.10 ] `, `"café"`} {
		key, old := endpoint.NewKey(), endpoint.NewKey()
		var got received
		if err := send(t, endpoint.Config{URL: serve(t, record(t, &got)), Keys: []string{key, old}}, newJob(payload)); err != nil {
			t.Fatal(err)
		}
		for _, keys := range [][]string{{key}, {old}, {endpoint.NewKey(), old}} {
			if err := endpoint.Verify(got.Request, got.body, keys, 0); err != nil {
				t.Errorf("%s: %v", payload, err)
			}
		}
		if err := endpoint.Verify(got.Request, got.body, []string{endpoint.NewKey()}, 0); !errors.Is(err, endpoint.ErrSignature) {
			t.Errorf("got %v, want %v", err, endpoint.ErrSignature)
		}
		if n := len(strings.Fields(got.Header.Get("Webhook-Signature"))); n != 2 {
			t.Errorf("got %d signatures, want 2", n)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add(reference.id, reference.timestamp, reference.signature, reference.body)
	f.Add("", "", "", "")
	f.Add("a.b", "-1", "v1, v1,= v1,AA==", "{}")
	f.Fuzz(func(t *testing.T, id, timestamp, signature, body string) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header["Webhook-Id"] = []string{id}
		r.Header["Webhook-Timestamp"] = []string{timestamp}
		r.Header["Webhook-Signature"] = []string{signature}
		// Nobody can sign for a key that is made now.
		if err := endpoint.Verify(r, []byte(body), []string{endpoint.NewKey()}, 0); !errors.Is(err, endpoint.ErrSignature) {
			t.Errorf("got %v, want %v", err, endpoint.ErrSignature)
		}
	})
}
