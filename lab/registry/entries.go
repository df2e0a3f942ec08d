package registry

import (
	"github.com/later-queue/later/lab/contender/floor"
	"github.com/later-queue/later/lab/contender/gue"
	"github.com/later-queue/later/lab/contender/ours"
	"github.com/later-queue/later/lab/contender/pgq"
	"github.com/later-queue/later/lab/contender/plainsql"
	"github.com/later-queue/later/lab/contender/river"
)

// Entries are all contenders. A new one is one line here, and its lanes in the races.
var Entries = []Entry{
	// Parts of this program.
	{Name: "ours", Database: Postgres, Go: &ours.Definition},
	{Name: "river", Database: Postgres, Go: &river.Definition},
	{Name: "gue", Database: Postgres, Go: &gue.Definition},
	{Name: "plainsql", Database: Postgres, Go: &plainsql.Definition},
	{Name: "floor", Database: Postgres, Go: &floor.Definition},
	{Name: "pgq", Database: Postgres, Go: &pgq.Definition},

	// Programs of their own, in the folder node.
	{Name: "graphile", Database: Postgres, Program: []string{"node", "node/graphile.mjs"}},
	{Name: "pgboss", Database: Postgres, Program: []string{"node", "node/pgboss.mjs"}},
	{Name: "bullmq-pg", Database: Postgres, Program: []string{"node", "node/bullmq-pg.mjs"}},
	{Name: "bullmq-redis", Database: Redis, Program: []string{"node", "node/bullmq-redis.mjs"}},
}
