package race

import (
	"time"

	"github.com/later-queue/later/lab/course"
)

// SQLite is the drain on SQLite. The peers' backlogs are smaller: their rates do not
// depend on them, and each job of theirs is a commit or more, synced to disk.
var SQLite = Race{
	Name: "sqlite",
	About: "The drain on SQLite: one process, one file, the same driver (modernc.org/sqlite, pure Go) and synchronous FULL for all, " +
		"so that it compares the queues. The setting \"normal\" is the exception, and says so.",
	Course: course.Drain,
	Jobs:   200_000,
	Rounds: 3,
	Limit:  20 * time.Second,
	Quick:  10,
	Lanes: []Lane{
		{Contender: "ours-sqlite", Settings: "tuned"},
		{Contender: "ours-sqlite", Settings: "defaults"},
		{Contender: "goqite", Settings: "bench", Jobs: 50_000},
		{Contender: "goqite", Settings: "tuned", Jobs: 50_000},
		{Contender: "goqite", Settings: "defaults", Jobs: 5_000},
		{Contender: "goqite", Settings: "normal", Jobs: 50_000, Note: "its commits are not yet on disk when they return"},
		{Contender: "riversqlite", Settings: "bench", Jobs: 50_000},
		{Contender: "riversqlite", Settings: "defaults", Jobs: 50_000},
	},
}
