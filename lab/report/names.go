package report

import (
	"slices"

	"github.com/later-queue/later/lab/plot"
)

// contender is how one is called and drawn. One that is not in the list is called as
// it calls itself.
type contender struct {
	id, name  string
	colour    plot.Colour
	dashed    bool // it shares its colour with another back end of the same project
	reference bool // no queue that one would install, but something to measure by
}

// contenders are in the order of tables: ours first, references last.
var contenders = []contender{
	{id: "ours", name: "Later", colour: plot.Ours},
	{id: "ours-sqlite", name: "Later", colour: plot.Ours},
	{id: "river", name: "River", colour: plot.PeerA},
	{id: "riversqlite", name: "River", colour: plot.PeerA},
	{id: "graphile", name: "Graphile Worker", colour: plot.PeerB},
	{id: "pgboss", name: "pg-boss", colour: plot.PeerC},
	{id: "gue", name: "gue", colour: plot.PeerD},
	{id: "bullmq-pg", name: "BullMQ on Postgres", colour: plot.PeerE},
	{id: "bullmq-redis", name: "BullMQ on Redis", colour: plot.PeerE, dashed: true},
	{id: "asynq", name: "Asynq on Redis", colour: plot.PeerB, dashed: true},
	{id: "goqite", name: "goqite", colour: plot.PeerB},
	{id: "pgq", name: "PgQ", colour: plot.Reference},
	{id: "plainsql", name: "plain SQL", colour: plot.Reference, dashed: true, reference: true},
	{id: "floor", name: "the floor", colour: plot.Reference, dashed: true, reference: true},
}

func find(id string) contender {
	if i := slices.IndexFunc(contenders, func(c contender) bool { return c.id == id }); i >= 0 {
		return contenders[i]
	}
	return contender{id: id, name: id}
}

func displayName(id string) string { return find(id).name }

// rank is a contender's place in tables.
func rank(id string) int {
	if i := slices.IndexFunc(contenders, func(c contender) bool { return c.id == id }); i >= 0 {
		return i
	}
	return len(contenders)
}

func isOurs(id string) bool { return id == "ours" || id == "ours-sqlite" }

// settingsOrder is the order of settings in tables, best first; others follow.
var settingsOrder = []string{"tuned", "logged", "bench", "wide", "queues", "fast", "normal", "clients8", "clients4", "defaults"}

func rankOfSettings(s string) int {
	if i := slices.Index(settingsOrder, s); i >= 0 {
		return i
	}
	return len(settingsOrder)
}

var settingsNames = map[string]string{
	"bench":    "benchmark",
	"wide":     "benchmark, 64 connections",
	"queues":   "a queue for each tenant",
	"logged":   "tuned, with log",
	"normal":   "synchronous NORMAL",
	"clients4": "4 clients",
	"clients8": "8 clients",
}

func settingsName(s string) string {
	if name := settingsNames[s]; name != "" {
		return name
	}
	return s
}
