package race

import (
	"time"

	"github.com/later-queue/later/lab/course"
)

// Drain is the race to the end of a backlog.
var Drain = Race{
	Name: "drain",
	About: "Workers drain a backlog of no-op jobs that was enqueued before. The rate is that of handlers ended, " +
		"from the moment at which the worker begins to look for jobs; one that is not done within the limit is cut there.",
	Course: course.Drain,
	Jobs:   500_000,
	Rounds: 3,
	Limit:  40 * time.Second,
	Quick:  10,
	Lanes: []Lane{
		{Contender: "ours", Settings: "tuned"},
		{Contender: "ours", Settings: "logged"},
		{Contender: "ours", Settings: "defaults"},
		{Contender: "floor", Settings: "defaults"},
		{Contender: "plainsql", Settings: "clients4"},
		{Contender: "plainsql", Settings: "clients8"},
		{Contender: "pgq", Settings: "defaults"},
		{Contender: "river", Settings: "bench"},
		{Contender: "river", Settings: "defaults", Jobs: 50_000, Note: "a backlog of 50,000: its rate does not depend on it"},
		{Contender: "gue", Settings: "tuned", Jobs: 50_000, Note: "a backlog of 50,000: it is slower with more"},
		{Contender: "gue", Settings: "defaults", Jobs: 20_000, Note: "a backlog of 20,000: it is slower with more"},
		{Contender: "graphile", Settings: "bench"},
		{Contender: "graphile", Settings: "bench", Processes: 4},
		{Contender: "graphile", Settings: "defaults", Jobs: 50_000, Note: "a backlog of 50,000"},
		{Contender: "pgboss", Settings: "bench"},
		{Contender: "pgboss", Settings: "defaults", Jobs: 50_000, Note: "a backlog of 50,000"},
		{Contender: "bullmq-pg", Settings: "defaults", Jobs: 50_000, Note: "a backlog of 50,000"},
		{Contender: "bullmq-pg", Settings: "bench", Jobs: 50_000, Note: "a backlog of 50,000"},
		{Contender: "pgboss", Settings: "burst"},
		{Contender: "asynq", Settings: "bench", Server: "redis-everysec", Jobs: 200_000, Note: "a backlog of 200,000"},
		{Contender: "asynq", Settings: "high", Server: "redis-everysec", Jobs: 200_000, Note: "a backlog of 200,000"},
		{Contender: "asynq", Settings: "defaults", Server: "redis-everysec", Jobs: 200_000, Note: "a backlog of 200,000"},
		{Contender: "asynq", Settings: "bench", Server: "redis-always", Jobs: 200_000, Note: "a backlog of 200,000"},
		{Contender: "bullmq-redis", Settings: "bench", Server: "redis-everysec", Jobs: 200_000, Note: "a backlog of 200,000"},
		{Contender: "bullmq-redis", Settings: "defaults", Server: "redis-everysec", Jobs: 50_000, Note: "a backlog of 50,000"},
		{Contender: "bullmq-redis", Settings: "bench", Server: "redis-always", Jobs: 200_000, Note: "a backlog of 200,000"},
	},
}
