package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/later-queue/later"
)

// Case 16 and case 202: names that break SQL, patterns, URLs or terminals.
var oddNames = []string{
	`a'b`, `a"b`, "a`b", `a;drop table jobs--`, `a'||pg_sleep(5)||'`, `a%b_c`, `%`, `_`, `a\b`, `\`, `a\'b`,
	`foo/bar.baz`, `..`, `a?b#c`, `queue+name`, `a b`, `a:b`, `{a}`, `{a,"b"}`, `$1`, `:a`, `@a`, `null`, `NULL`, `*`,
	"caf\u00e9", "cafe\u0301", "😀", "İ", "ı", "ß", "SS",
}

// oddTenants adds what names may not be at all.
var refusedTenants = []string{
	" a", "a ", "a\nb", "a\tb", "\x00", "a\x00b", "\xff", "a\u202eb", "a\u200bb", "\u2028", strings.Repeat("x", later.MaxTenantBytes+1),
}

var (
	keptNames    = []string{"a", "A", "0", "_", "a_b", "aXb", "a.b", "a:b", "a-b", "a-B", "select", "null", strings.Repeat("n", later.MaxNameBytes)}
	refusedNames = []string{"*", "a b", " a", "-a", ".", "..", "a/b", "a'b", `a"b`, `a\b`, "a%b", "a?b", "café", "😀", "a\n", "a\x00", "\xff", strings.Repeat("n", later.MaxNameBytes+1)}
)

func testNames(t *testing.T, open Open) {
	// Case 16: a name works in every place, or is refused at the enqueue.
	t.Run("an odd queue or kind is refused, and stored nowhere", func(t *testing.T) {
		w := newWorld(t, open)
		for _, name := range refusedNames {
			_, err := w.client().Enqueue(w.ctx, raw(`{}`), later.Options{Queue: name})
			isError(t, "queue "+name, err, later.ErrInvalid)
			_, err = w.client().Enqueue(w.ctx, later.RawArgs{JobKind: name, Payload: []byte(`{}`)}, later.Options{})
			isError(t, "kind "+name, err, later.ErrInvalid)
		}
		for _, name := range refusedTenants {
			_, err := w.client().Enqueue(w.ctx, raw(`{}`), later.Options{Tenant: name})
			isError(t, "tenant "+name, err, later.ErrInvalid)
		}
		equal(t, "jobs", len(w.list(later.Filter{})), 0)
	})

	// Case 16, case 202: names are compared byte by byte: no pattern, no case
	// folding, no collation.
	t.Run("a queue and a kind match themselves only", func(t *testing.T) {
		w := newWorld(t, open)
		ids := map[string]int64{}
		for _, name := range keptNames {
			ids[name] = w.enqueueArgs(later.RawArgs{JobKind: name, Payload: []byte(`{}`)}, later.Options{Queue: name})
		}
		for _, name := range keptNames {
			want := []int64{ids[name]}
			equalSlices(t, "jobs listed of queue "+name, listed(w.list(later.Filter{Queue: name})), want)
			equalSlices(t, "jobs listed of kind "+name, listed(w.list(later.Filter{Kind: name})), want)
			req := ask(100)
			req.Queues[0].Queue, req.Kinds = name, keptNames
			equalSlices(t, "jobs claimed of queue "+name, idsOf(w.claimWith(req)), want)
		}
		for _, row := range w.status() {
			equal(t, "jobs counted in queue "+row.Queue, row.Count, 1)
		}
	})

	t.Run("a claim takes the kinds that it names only", func(t *testing.T) {
		w := newWorld(t, open)
		ids := map[string]int64{}
		for _, name := range keptNames {
			ids[name] = w.enqueueArgs(later.RawArgs{JobKind: name, Payload: []byte(`{}`)}, later.Options{})
		}
		for _, name := range keptNames {
			req := ask(100)
			req.Kinds = []string{name}
			equalSlices(t, "jobs claimed of kind "+name, idsOf(w.claimWith(req)), []int64{ids[name]})
		}
	})

	// Case 16, case 202: a tenant is any printable text.
	t.Run("an odd tenant works everywhere and matches itself only", func(t *testing.T) {
		w := newWorld(t, open)
		names := append(slices.Clone(oddNames), "", "a", "A", strings.Repeat("é", later.MaxTenantBytes/2))
		ids := map[string]int64{}
		for _, name := range names {
			ids[name] = w.enqueue(later.Options{Tenant: name})
		}
		for _, name := range names {
			equal(t, "tenant found", w.find(ids[name]).Tenant, name)
			equalSlices(t, "jobs listed of tenant "+name, listed(w.list(later.Filter{Tenant: &name})), []int64{ids[name]})
		}
		for _, c := range w.claim(len(names)) {
			equal(t, "id of the job of tenant "+c.Tenant, c.ID, ids[c.Tenant])
			w.settle(end(c, later.OutcomeDead))
		}
		for _, name := range names {
			n, err := w.store.DropDead(w.ctx, later.Filter{Tenant: &name})
			if n != 1 || err != nil {
				t.Errorf("DropDead of tenant %q: got %d, %v, want 1", name, n, err)
			}
		}
	})

	// Case 16: a worker's name ends in what the host is called.
	t.Run("an odd worker name is kept with the job", func(t *testing.T) {
		w := newWorld(t, open)
		for _, name := range oddNames {
			id := w.enqueue(later.Options{})
			req := ask(1)
			req.Worker = name
			w.claimWith(req)
			equal(t, "holder", w.find(id).Worker, name)
		}
	})

	// Case 202: a filter's text is a text, not a pattern.
	t.Run("a text in an error is found as it is written", func(t *testing.T) {
		w := newWorld(t, open)
		texts := []string{`100% sure`, `100 percent`, `under_score`, `underXscore`, `back\slash`, `back/slash`, `it's`, `"quoted"`, `a*b?[c]`, `aXXbY`, `$1 :name`, `café 😀`}
		ids := map[string]int64{}
		for _, text := range texts {
			ids[text] = w.die(raw(`{}`), later.Options{}, later.DeadFailed, text)
		}
		for text, id := range ids {
			equalSlices(t, "jobs listed with "+text, listed(w.list(later.Filter{ErrorLike: text})), []int64{id})
		}
		for part, text := range map[string]string{`%`: `100% sure`, `r_s`: `under_score`, `\`: `back\slash`, `'`: `it's`, `b?[`: `a*b?[c]`, `😀`: `café 😀`} {
			equalSlices(t, "jobs listed with "+part, listed(w.list(later.Filter{ErrorLike: part})), []int64{ids[text]})
		}
		if got := w.list(later.Filter{ErrorLike: `%_%`}); len(got) != 0 {
			t.Errorf("got %v for %q, want none", listed(got), `%_%`)
		}
	})
}

func (w *world) status() []later.StatusRow {
	w.t.Helper()
	rows, err := w.store.Status(w.ctx)
	if err != nil {
		w.t.Fatalf("Status: %v", err)
	}
	return rows
}
