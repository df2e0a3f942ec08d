package race

import "github.com/later-queue/later/lab/course"

// Singles is the race of enqueuing job by job.
var Singles = Race{
	Name:         "singles",
	About:        "100 goroutines (or as many promises) of one process enqueue one job per call, each waiting for its answer.",
	Course:       course.Singles,
	Callers:      100,
	Seconds:      10,
	QuickSeconds: 3,
	Rounds:       3,
	Lanes: []Lane{
		{Contender: "ours", Settings: "defaults"},
		{Contender: "river", Settings: "bench"},
		{Contender: "river", Settings: "wide"},
		{Contender: "gue", Settings: "defaults"},
		{Contender: "gue", Settings: "tuned"},
		{Contender: "plainsql", Settings: "clients8"},
		{Contender: "pgq", Settings: "defaults"},
		{Contender: "graphile", Settings: "bench"},
		{Contender: "pgboss", Settings: "bench"},
		{Contender: "bullmq-pg", Settings: "defaults"},
		{Contender: "bullmq-pg", Settings: "bench"},
		{Contender: "asynq", Settings: "bench", Server: "redis-everysec"},
		{Contender: "asynq", Settings: "bench", Server: "redis-always"},
		{Contender: "bullmq-redis", Settings: "bench", Server: "redis-everysec"},
		{Contender: "bullmq-redis", Settings: "bench", Server: "redis-always"},
	},
}
