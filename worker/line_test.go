package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// startedFrom has claims wait in a line, and returns who started: a letter is a tenant's job, a capital one has
// a better priority. "-" starts one, and in the end all start.
func startedFrom(claims string, weights map[string]int) string {
	l := &line{}
	var started strings.Builder
	start := func() {
		if a := l.pop(); a != nil {
			started.WriteString(a.claimed.Headers["name"])
		}
	}
	for token, claim := range strings.Fields(claims) {
		if strings.Trim(claim, "-") == "" {
			for range claim {
				start()
			}
			continue
		}
		had := map[string]int{}
		for _, letter := range claim {
			name := string(letter)
			c := &later.Claimed{Record: later.Record{Tenant: strings.ToLower(name), Headers: map[string]string{"name": name}}}
			c.Lease.Token = int64(token + 1)
			c.Turn = had[name] / max(weights[name], 1)
			had[name]++
			a := &attempt{claimed: c}
			if name != c.Tenant {
				a.rank = -1
			}
			l.push(a)
		}
	}
	for l.n > 0 {
		start()
	}
	return started.String()
}

func TestLine(t *testing.T) {
	for _, c := range []struct {
		behaviour, claims, want string
		weights                 map[string]int
	}{
		{"one claim's jobs start as it gave them", "abcab", "abcab", nil},
		{"one tenant's jobs start as they were claimed", "aaa - aaa", "aaaaaa", nil},
		{"who comes anew does not wait for what others' claims have brought", "aaaaaa -- aaab", "aabaaaaaaa", nil},
		{"who has jobs in line has no more of a round because another claim brings some", "abab a b", "ababab", nil},
		{"two that come go in rounds", "aaaa - bbcc", "abcabcaa", nil},
		{"a turn has as many jobs as the tenant weighs", "aaaaaa - bb", "aaabaaab", map[string]int{"a": 3}},
		{"a better priority goes ahead", "aaa - bB", "aBbaa", nil},
		{"each priority has rounds of its own", "AAAaaa --- bbb", "AAAababab", nil},
		{"an empty line begins anew", "aaa --- aaab", "aaaabaa", nil},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			if got := startedFrom(c.claims, c.weights); got != c.want {
				t.Errorf("%s: got %s, want %s", c.claims, got, c.want)
			}
		})
	}

	t.Run("nobody waits for ever, however many come anew", func(t *testing.T) {
		l := &line{}
		push := func(tenant string, claim int64) {
			c := &later.Claimed{Record: later.Record{Tenant: tenant}}
			c.Lease.Token = claim
			l.push(&attempt{claimed: c})
		}
		for n := range 10 {
			push("heavy", int64(n))
		}
		var started []string
		for n := range 4 * maxAhead {
			push("light"+strings.Repeat("x", n%7)+string(rune('a'+n%26)), int64(100+n))
			started = append(started, l.pop().claimed.Tenant)
		}
		if got := slices.Index(started, "heavy"); got > 0 {
			t.Errorf("got the first of the heavy one started after %d others, want at once", got)
		}
		if slices.Contains(started[maxAhead:], "heavy") || len(l.rounds) > 2*maxAhead {
			t.Errorf("got it started late, or %d rounds remembered", len(l.rounds))
		}
	})
}
