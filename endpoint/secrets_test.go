package endpoint_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/later-queue/later/endpoint"
)

// Case 200: what is kept with a job has no secrets of the configuration.
func TestSecrets(t *testing.T) {
	key := endpoint.NewKey()
	config := func(at string) endpoint.Config {
		return endpoint.Config{
			URL:    strings.Replace(at, "http://", "http://user:passw0rd@", 1) + "/path-s3cret?token=qu%20ery&n=1",
			Keys:   []string{key},
			Header: http.Header{"Authorization": {"Bearer t0ken-value"}, "X-Api-Key": {"api-key-value"}},
		}
	}
	check := func(t *testing.T, err error) {
		t.Helper()
		if err == nil {
			t.Fatal("got no error")
		}
		for _, secret := range []string{"passw0rd", "path-s3cret", "qu%20ery", "qu ery", "t0ken-value", "api-key-value", key, key[6:], "dXNlcjpwYXNzdzByZA"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q contains %s", err, secret)
			}
		}
		if !strings.HasPrefix(err.Error(), "POST 127.0.0.1:") {
			t.Errorf("%q does not begin with the method and the host", err)
		}
	}
	t.Run("nor has an answer that echoes the request", func(t *testing.T) {
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			_, _ = fmt.Fprintf(w, "you sent %s %s %v %s and %s", r.URL.RawQuery, r.URL.Query(), r.Header, key, "Basic dXNlcjpwYXNzdzByZA==")
		})
		err := send(t, config(at), newJob(`{}`))
		if !strings.Contains(err.Error(), "you sent") {
			t.Errorf("%q does not have the body", err)
		}
		for _, secret := range []string{"passw0rd", "t0ken-value", "api-key-value", "qu ery", "qu%20ery", key, "dXNlcjpwYXNzdzByZA"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q contains %s", err, secret)
			}
		}
	})
	t.Run("nor has a failed connection", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := "http://" + listener.Addr().String()
		_ = listener.Close()
		check(t, send(t, config(at), newJob(`{}`)))
	})
	t.Run("nor has a redirect", func(t *testing.T) {
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://else.example/path-s3cret?token=qu%20ery", http.StatusFound)
		})
		err := send(t, config(at), newJob(`{}`))
		check(t, err)
		if !strings.Contains(err.Error(), "302 Found: a redirect to else.example is not followed") {
			t.Errorf("got %q", err)
		}
	})
	t.Run("an error is valid text whatever the body is", func(t *testing.T) {
		// Case 2: NUL and invalid bytes in an error's text.
		at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = w.Write([]byte("boom\x00 caf\xe9\n"))
		})
		err := send(t, endpoint.Config{URL: at}, newJob(`{}`))
		if !strings.HasSuffix(err.Error(), ": 500 Internal Server Error: boom␀ caf\uFFFD") {
			t.Errorf("got %q", err)
		}
	})
}
