package race

import "github.com/later-queue/later/lab/course"

// Held is the race against an old snapshot.
var Held = Race{
	Name: "held",
	About: "2,000 jobs a second are enqueued one by one while workers work, and another transaction of the same database " +
		"holds the snapshot of the start, as a long report or a forgotten session does: nothing that is deleted can be vacuumed.",
	Course:       course.Held,
	Rate:         2_000,
	Seconds:      600,
	QuickSeconds: 60,
	Rounds:       1,
	Lanes: []Lane{
		{Contender: "ours", Settings: "defaults"},
		{Contender: "river", Settings: "bench"},
		{Contender: "gue", Settings: "tuned"},
		{Contender: "plainsql", Settings: "clients4"},
		{Contender: "pgq", Settings: "fast"},
		{Contender: "graphile", Settings: "bench"},
		{Contender: "pgboss", Settings: "bench"},
		{Contender: "bullmq-pg", Settings: "defaults"},
	},
}
