package endpoint_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/endpoint"
)

// TestReceivers runs the receivers of docs/http.md as they stand there.
func TestReceivers(t *testing.T) {
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, fence, interpreter string }{
		{"receiver.py", "```python\n# receiver.py\n", "python3"},
		{"receiver.mjs", "```js\n// receiver.mjs\n", "node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, rest, ok := strings.Cut(string(page), c.fence)
			code, _, closed := strings.Cut(rest, "\n```\n")
			if !ok || !closed {
				t.Fatalf("docs/http.md has no %s", c.name)
			}
			file := filepath.Join(t.TempDir(), c.name)
			if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			key, old := endpoint.NewKey(), endpoint.NewKey()
			at, output := startReceiver(t, c.interpreter, file, key+" "+old)

			signed := endpoint.Config{URL: at, Keys: []string{key}}
			job := newJob(`{"email": "ada@example.org", "id": 9223372036854775807}`)
			job.Tenant = "café 100%"
			for range 2 { // the second time as after a worker's death
				if err := send(t, signed, job); err != nil {
					t.Error(err)
				}
			}
			if err := send(t, endpoint.Config{URL: at, Keys: []string{endpoint.NewKey(), old}}, job); err != nil {
				t.Errorf("with the old key: %v", err)
			}
			for name, c := range map[string]struct {
				config  endpoint.Config
				payload string
				want    string
			}{
				"no signature":           {endpoint.Config{URL: at}, `{}`, "401 Unauthorized: signature does not verify"},
				"another key":            {endpoint.Config{URL: at, Keys: []string{endpoint.NewKey()}}, `{}`, "401 Unauthorized: signature does not verify"},
				"a payload that is none": {signed, `{"a":1}`, "422 Unprocessable Entity: the payload has no email"},
			} {
				job := newJob(c.payload)
				job.ID = 43
				err := send(t, c.config, job)
				if !later.IsPermanent(err) || !strings.HasSuffix(err.Error(), c.want) {
					t.Errorf("%s: got %v, want %s", name, err, c.want)
				}
			}
			if got, want := output(), "welcome ada@example.org of café 100%\n"; got != want {
				t.Errorf("the receiver wrote %q, want %q once", got, want)
			}
		})
	}
}

// startReceiver starts a receiver on a free port. output ends it and returns
// what it has written since.
func startReceiver(t *testing.T, interpreter, file, keys string) (at string, output func() string) {
	t.Helper()
	cmd := exec.Command(interpreter, file)
	cmd.Env = append(os.Environ(), "PORT=0", "LATER_HTTP_KEY="+keys)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s is needed to test docs/http.md: %v", interpreter, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		var killed *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &killed) {
			t.Error(err)
		}
	})
	lines := bufio.NewReader(stdout)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("the receiver did not start: %v", err)
	}
	var port int
	if _, err := fmt.Sscanf(first, "listening on %d", &port); err != nil {
		t.Fatalf("%q: %v", first, err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/", port), func() string {
		_ = cmd.Process.Kill()
		rest, _ := io.ReadAll(lines)
		return string(rest)
	}
}
