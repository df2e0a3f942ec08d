package demo

import (
	"slices"
	"strings"
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
)

// honest is what is found when everything went well: the tests break it.
func honest() *facts {
	return &facts{
		taken: []int64{1, 2, 4}, declined: []int64{3},
		orders:        []int64{1, 2, 4},
		confirmations: map[int64]int{1: 1, 2: 1, 4: 1},
		mails:         []mailapi.Mail{{Order: 1}, {Order: 2}, {Order: 4}},
		poison:        []int64{70},
		dead: []*later.JobInfo{{
			Record:     later.Record{ID: 70, Errors: []later.AttemptError{{Attempt: 1, Error: "no such order"}}},
			DeadReason: later.DeadPermanent,
		}},
		killedWith: 3, drainedWith: 2,
		service: mailapi.Stats{Calls: 5, Written: 3, Absorbed: 1},
	}
}

func TestTally(t *testing.T) {
	t.Run("adds up when every order has one effect and one mail", func(t *testing.T) {
		tally := honest().tally()
		if !tally.OK() {
			t.Fatalf("got the faults %q, want none", faults(tally))
		}
	})

	for _, c := range []struct {
		name string
		edit func(f *facts)
		want string // one of the faults
	}{
		{"an order that is not stored", func(f *facts) { f.orders = f.orders[1:] }, "order 1 was taken and is not stored"},
		{"a stored order that was rolled back", func(f *facts) { f.orders = append(f.orders, 3) }, "order 3 is stored and was not taken"},
		{"a lost order", func(f *facts) { delete(f.confirmations, 2) }, "order 2 is confirmed never"},
		{"a double effect", func(f *facts) { f.confirmations[4] = 2 }, "order 4 is confirmed twice"},
		{"a lost mail", func(f *facts) { f.mails = f.mails[:2] }, "order 4 was mailed never"},
		{"a double mail", func(f *facts) { f.mails = append(f.mails, f.mails[0]) }, "order 1 was mailed twice"},
		{"a mail for an order that was rolled back", func(f *facts) { f.mails = append(f.mails, mailapi.Mail{Order: 3}) }, "order 3, which was rolled back, was mailed"},
		{"an effect of an order that was rolled back", func(f *facts) { f.confirmations[3] = 1 }, "order 3, which was rolled back, is confirmed"},
		{"a mail for an order that never was", func(f *facts) { f.mails = append(f.mails, mailapi.Mail{Order: 9}) }, "order 9, which never was, was mailed"},
		{"a job that is left", func(f *facts) { f.left = 1 }, "1 job has neither ended nor died"},
		{"a poisoned job that is not dead", func(f *facts) { f.dead = nil }, "job 70, which cannot be done, is not dead"},
		{"a dead job without a reason", func(f *facts) { f.dead[0].Errors = nil }, "job 70 is dead without a reason"},
		{"a dead job that could have been done", func(f *facts) { f.poison = nil }, "job 70 is dead: no such order"},
		{"that nobody was killed", func(f *facts) { f.killedWith = 0 }, "no worker was killed in the middle of a job"},
		{"that nobody took over the killed worker's job", func(f *facts) { f.service.Absorbed = 0 }, "nobody repeated the call that the killed worker had made"},
		{"that nobody drained", func(f *facts) { f.drainedWith = 0 }, "no worker drained in the middle of a job"},
		{"a worker that failed", func(f *facts) { f.failed = []string{"worker-1 ended: exit status 2"} }, "worker-1 ended: exit status 2"},
		{"that there were no orders", func(f *facts) { f.taken, f.orders, f.mails, f.confirmations = nil, nil, nil, nil }, "no order was taken"},
	} {
		t.Run("finds "+c.name, func(t *testing.T) {
			f := honest()
			c.edit(f)
			tally := f.tally()
			if tally.OK() {
				t.Error("got a tally that adds up, want a fault")
			}
			if got := faults(tally); !slices.Contains(got, c.want) {
				t.Errorf("got the faults %q, want %q among them", got, c.want)
			}
		})
	}
}

func faults(t *Tally) (all []string) {
	for _, c := range t.Checks {
		all = append(all, c.Faults...)
	}
	return all
}

func TestReport(t *testing.T) {
	t.Run("says what is wrong", func(t *testing.T) {
		f := honest()
		delete(f.confirmations, 2)
		var out strings.Builder
		d := &demo{config: Config{Out: &out, Orders: 3, Command: "later"}, place: place{Dir: "/d", DB: "sqlite:/d/shop.db"}, story: newStory()}
		if err := d.report(f.tally()); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"WRONG  3 orders confirmed", "order 2 is confirmed never", "It does not add up.",
			"db=/d/shop.db\n", `later dead list --db sqlite:"$db"`, "no such order"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("got %s\nwant %q in it", out.String(), want)
			}
		}
	})
	t.Run("shows no password", func(t *testing.T) {
		var out strings.Builder
		at := place{Dir: "/d", DB: "postgres://ada:secret@host/db", Schema: "s"}
		d := &demo{config: Config{Out: &out, Orders: 3, Command: "later"}, place: at, story: newStory()}
		if err := d.report(honest().tally()); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "secret") {
			t.Errorf("got %s, want no password in it", out.String())
		}
	})
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"sqlite:/tmp/a-b/shop.db": "sqlite:/tmp/a-b/shop.db",
		"":                        "''",
		"it's $HOME":              `'it'\''s $HOME'`,
		"postgres://h/d?a=b&c=d":  "'postgres://h/d?a=b&c=d'",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("shellWord(%q): got %s, want %s", word, got, want)
		}
	}
}
