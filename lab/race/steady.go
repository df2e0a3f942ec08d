package race

import "github.com/later-queue/later/lab/course"

// Steady is the race of latency under load.
var Steady = Race{
	Name: "steady",
	About: "2,000 jobs a second are enqueued one by one while workers work on the same machine: " +
		"the time from the enqueue's answer to the start of the handler. The first second is left out.",
	Course:       course.Steady,
	Rate:         2_000,
	Seconds:      20,
	QuickSeconds: 6,
	Rounds:       3,
	Lanes: []Lane{
		{Contender: "ours", Settings: "defaults"},
		{Contender: "ours", Settings: "tuned"},
		{Contender: "river", Settings: "defaults"},
		{Contender: "river", Settings: "bench"},
		{Contender: "river", Settings: "wide"},
		{Contender: "gue", Settings: "tuned"},
		{Contender: "plainsql", Settings: "clients4"},
		{Contender: "pgq", Settings: "fast"},
		{Contender: "graphile", Settings: "bench"},
		{Contender: "pgboss", Settings: "bench"},
		{Contender: "bullmq-pg", Settings: "defaults"},
		{Contender: "pgboss", Settings: "burst"},
		{Contender: "asynq", Settings: "bench", Server: "redis-everysec"},
		{Contender: "asynq", Settings: "bench", Server: "redis-always"},
		{Contender: "bullmq-redis", Settings: "bench", Server: "redis-everysec"},
		{Contender: "bullmq-redis", Settings: "bench", Server: "redis-always"},
	},
}
