package registry

import (
	"github.com/later-queue/later/lab/contender/asynq"
	"github.com/later-queue/later/lab/contender/floor"
	"github.com/later-queue/later/lab/contender/goqite"
	"github.com/later-queue/later/lab/contender/gue"
	"github.com/later-queue/later/lab/contender/ours"
	"github.com/later-queue/later/lab/contender/pgq"
	"github.com/later-queue/later/lab/contender/plainsql"
	"github.com/later-queue/later/lab/contender/river"
	"github.com/later-queue/later/lab/contender/riversqlite"
)

// nodeProgram is the Node.js that comes with the contenders' packages: some need a
// newer one than a system has.
const nodeProgram = "node/node_modules/.bin/node"

// Entries are all contenders. A new one is one line here, and its lanes in the races.
var Entries = []Entry{
	// Parts of this program.
	{Name: "ours", Database: Postgres, Go: &ours.Definition},
	{Name: "river", Database: Postgres, Go: &river.Definition},
	{Name: "gue", Database: Postgres, Go: &gue.Definition},
	{Name: "plainsql", Database: Postgres, Go: &plainsql.Definition},
	{Name: "floor", Database: Postgres, Go: &floor.Definition},
	{Name: "pgq", Database: Postgres, Go: &pgq.Definition},
	{Name: "asynq", Database: Redis, Go: &asynq.Definition},
	{Name: "ours-sqlite", Database: SQLite, Go: &ours.SQLite},
	{Name: "goqite", Database: SQLite, Go: &goqite.Definition},
	{Name: "riversqlite", Database: SQLite, Go: &riversqlite.Definition},

	// Programs of their own, in the folder node.
	{Name: "graphile", Database: Postgres, Program: []string{nodeProgram, "node/graphile.mjs"}},
	{Name: "pgboss", Database: Postgres, Program: []string{nodeProgram, "node/pgboss.mjs"}},
	{Name: "bullmq-pg", Database: Postgres, Program: []string{nodeProgram, "node/bullmq-pg.mjs"}},
	{Name: "bullmq-redis", Database: Redis, Program: []string{nodeProgram, "node/bullmq-redis.mjs"}},
}
