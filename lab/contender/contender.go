// Package contender is the contender's side of the lab: what a queue must be able to
// do to take part, and the protocol in which a process of it talks to the driver.
package contender

import "context"

// Definition is one queue that takes part, before it is opened.
type Definition struct {
	// Name is how races call it: "river".
	Name string
	// Version is that of its module or package.
	Version string
	// Settings says in words what each of its settings means and where they come
	// from: which of its documents, or which of its sources.
	Settings map[string]string
	// Open connects to it. It need not have been set up.
	Open func(ctx context.Context, env Env) (Contender, error)
}

// Env is what the driver says in the environment.
type Env struct {
	// URL is a postgres:// or redis:// address, or the path of an SQLite file.
	URL string
	// Settings is one of Definition.Settings.
	Settings string
	// Processes is how many work processes run side by side.
	Processes int
	// Payload is the text of each job's payload, to be put beside its number.
	Payload string
	// Tenant is whose jobs are enqueued, and whose jobs' starts are noted; "" is nobody's
	// and everybody's.
	Tenant string
	// Dir is a folder for this run's files.
	Dir string
}

// Contender is a queue that is connected. It is used by one verb, then closed.
type Contender interface {
	// Setup makes its tables from nothing.
	Setup(ctx context.Context) error
	// Enqueue enqueues n jobs with the numbers from…from+n-1, in the best way that
	// its documentation has for many jobs, and returns when all are stored.
	Enqueue(ctx context.Context, from, n int64) error
	// EnqueueOne enqueues one job as its documentation does it, and returns when
	// it is stored. It is called from many goroutines.
	EnqueueOne(ctx context.Context, seq int64) error
	// Work runs a worker until ctx ends, and then stops it in good order: what
	// has been handled is recorded before it returns. It calls ready once it
	// begins to look for jobs, and handle in each handler; the handler ends when
	// handle does.
	Work(ctx context.Context, ready func(), handle func(Payload)) error
	// Remaining counts the jobs that have not been completed.
	Remaining(ctx context.Context) (int64, error)
	// Close ends its connections.
	Close()
}

// The tenants of the race in which there are two.
const (
	Light = "light"
	Heavy = "heavy"
)

// Payload is the payload of every job, about 110 bytes of JSON.
type Payload struct {
	Seq    int64  `json:"seq"`
	Text   string `json:"text"`
	Tenant string `json:"tenant,omitempty"`
}

// Job is the payload of the job with this number.
func (e Env) Job(seq int64) Payload {
	return Payload{Seq: seq, Text: e.Payload, Tenant: e.Tenant}
}
