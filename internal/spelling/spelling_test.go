package spelling

import "testing"

func TestNearest(t *testing.T) {
	fields := []string{"kind", "payload", "queue", "priority", "max_attempts", "run_at"}
	for _, c := range []struct{ word, want string }{
		{"prioritty", "priority"},
		{"qeueu", "queue"},
		{"max-attempts", "max_attempts"},
		{"maxattempts", "max_attempts"},
		{"RUN_AT", "run_at"},
		{"pay", "payload"},
		{"zzzzzz", ""},
		{"", ""},
		{"x", ""},
	} {
		if got := Nearest(c.word, fields); got != c.want {
			t.Errorf("Nearest(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}
