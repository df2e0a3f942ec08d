package race

import "github.com/later-queue/later/lab/course"

// Trickle is the race of latency without load.
var Trickle = Race{
	Name: "trickle",
	About: "One job is enqueued at a time, 50 ms apart, into an idle system: " +
		"the time from the enqueue's answer to the start of the handler. The first second is left out.",
	Course: course.Trickle,
	Jobs:   400,
	Quick:  4,
	Rounds: 3,
	Lanes: []Lane{
		{Contender: "ours", Settings: "defaults"},
		{Contender: "ours", Settings: "tuned"},
		{Contender: "river", Settings: "defaults"},
		{Contender: "river", Settings: "bench"},
		{Contender: "gue", Settings: "defaults", Note: "it polls every 5 s"},
		{Contender: "gue", Settings: "tuned"},
		{Contender: "pgq", Settings: "fast"},
		{Contender: "graphile", Settings: "defaults"},
		{Contender: "graphile", Settings: "bench"},
		{Contender: "pgboss", Settings: "defaults"},
		{Contender: "bullmq-pg", Settings: "defaults"},
		{Contender: "pgboss", Settings: "burst"},
		{Contender: "asynq", Settings: "bench", Server: "redis-everysec"},
		{Contender: "asynq", Settings: "bench", Server: "redis-always"},
		{Contender: "bullmq-redis", Settings: "bench", Server: "redis-everysec"},
		{Contender: "bullmq-redis", Settings: "bench", Server: "redis-always"},
		{Contender: "asynq", Settings: "defaults", Server: "redis-everysec", Note: "it polls every second"},
	},
}
