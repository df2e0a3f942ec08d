package registry

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	for _, e := range Entries {
		if got, err := Find(e.Name); err != nil || got.Name != e.Name {
			t.Errorf("got %+v, %v, want %s", got, err, e.Name)
		}
	}
	for name, want := range map[string]string{
		"rivre":      `no contender is called "rivre" (did you mean "river"?); there are ours, river, `,
		"ours_sqlit": `did you mean "ours-sqlite"?`,
		"":           `no contender is called ""; there are ours, `,
	} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}
