package bench

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/later-queue/later/internal/open"
)

// Report is what a run has found. Its JSON names stay; docs/bench.md explains
// each. What could not be known is null.
type Report struct {
	Database  string     `json:"database"` // "postgres" or "sqlite"
	URL       string     `json:"url"`      // without its password
	Place     string     `json:"place"`    // the schema or the folder that the run had
	StartedAt time.Time  `json:"started_at"`
	Complete  bool       `json:"complete"` // all phases have ended well
	Removed   bool       `json:"removed"`  // the place is gone
	Settings  Settings   `json:"settings"`
	Machine   Machine    `json:"machine"`
	Server    Server     `json:"server"`
	Waiting   Waiting    `json:"waiting"`
	Phases    []*Result  `json:"phases"`
	Warnings  []string   `json:"warnings"`
	Leftovers []Leftover `json:"leftovers"`
}

// Settings are those of the run.
type Settings struct {
	Jobs         int   `json:"jobs"`
	Batch        int   `json:"batch"`
	Callers      int   `json:"callers"`
	Rate         int   `json:"rate"`
	ForMS        int64 `json:"for_ms"`
	Workers      int   `json:"workers"`
	Concurrency  int   `json:"concurrency"`
	PayloadBytes int   `json:"payload_bytes"`
	Kinds        int   `json:"kinds"`
	Tenants      int   `json:"tenants"`
	Priorities   int   `json:"priorities"`
	Log          bool  `json:"log"`
	HoldSnapshot bool  `json:"hold_snapshot"`
}

// Waiting are the jobs that wait beside those of the run.
type Waiting struct {
	Ready     int64 `json:"ready"`
	Scheduled int64 `json:"scheduled"`
}

// Machine is where the benchmark runs, which need not be where the database is.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
	Host string `json:"host"`
}

// Server is the database.
type Server struct {
	Version string `json:"version"`
	// Local says that the server's processes are on this machine and can be seen,
	// so that their CPU time is known.
	Local bool `json:"local"`
	// Pooler is "none", "session" or "transaction"; "session" is also what a
	// pooler is called that could not be made to show that it is the latter.
	// Empty for SQLite.
	Pooler      string            `json:"pooler"`
	RoundTripUS *float64          `json:"round_trip_us"` // median of a statement that does nothing
	Settings    map[string]string `json:"settings"`
}

// Result is what was measured in one phase.
type Result struct {
	Name         Phase    `json:"name"`
	SnapshotHeld bool     `json:"snapshot_held"`
	Jobs         int64    `json:"jobs"`
	DurationMS   float64  `json:"duration_ms"`
	Rate         float64  `json:"jobs_per_second"`
	Repeated     int64    `json:"repeated"`         // starts of jobs that had been started before
	Start        *Latency `json:"start_latency_ms"` // from the end of the enqueue to the start of the handler
	Call         *Latency `json:"enqueue_call_ms"`  // how long a call of Enqueue takes
	Cost         Cost     `json:"cost"`
	Notes        []string `json:"notes"`
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Latency are percentiles in milliseconds, each a value that was measured.
type Latency struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50"`
	P90     float64 `json:"p90"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
}

// Cost is what a phase used; nil is unknown, or of no meaning in it.
type Cost struct {
	ServerCPU *float64 `json:"server_cpu_us_per_job"` // all processes of the server
	ClientCPU *float64 `json:"client_cpu_us_per_job"` // this process
	WAL       *float64 `json:"wal_bytes_per_job"`     // of the whole server
	FullPages *int64   `json:"full_page_images"`      // pages in the WAL in full, after a checkpoint
	Commits   *float64 `json:"commits_per_job"`       // of the whole database
	HOT       *float64 `json:"hot_share"`             // of the job table's updates, 0 to 1
	DeadRows  *int64   `json:"dead_rows"`             // in the job table at the end
	Vacuums   *int64   `json:"autovacuums"`           // of the job table
	TableSize *int64   `json:"table_bytes"`           // of the job table and its indexes at the end
	Written   *float64 `json:"written_bytes_per_job"` // by this process into files (SQLite)
	WALFile   *int64   `json:"wal_file_bytes"`        // of SQLite's WAL file at the end
	Others    *int64   `json:"rows_of_others"`        // written by others meanwhile
	OthersCPU *float64 `json:"cpu_share_of_others"`   // of this machine, 0 to 1, by programs that have no part in it
}

// Leftover is what a run left that was killed.
type Leftover struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	InUse bool   `json:"in_use"` // its run still goes on
	// Owner is the role that a schema belongs to; empty for a folder. Foreign says that the
	// user has not that role's rights, and so may not remove it.
	Owner   string `json:"owner"`
	Foreign bool   `json:"foreign"`
}

func newReport(cfg Config) *Report {
	host, _ := os.Hostname() // shown to people only
	return &Report{
		URL: open.Redact(cfg.URL), StartedAt: time.Now().UTC().Truncate(time.Millisecond),
		Settings: Settings{
			Jobs: cfg.Jobs, Batch: cfg.Batch, Callers: cfg.Callers, Rate: cfg.Rate, ForMS: cfg.For.Milliseconds(),
			Workers: cfg.Workers, Concurrency: cfg.Concurrency, PayloadBytes: cfg.Payload, Kinds: cfg.Kinds,
			Tenants: cfg.Tenants, Priorities: cfg.Priorities, Log: !cfg.NoLog, HoldSnapshot: cfg.HoldSnapshot,
		},
		Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), Host: host},
		Server:  Server{Settings: map[string]string{}},
		Phases:  []*Result{}, Warnings: []string{}, Leftovers: []Leftover{},
	}
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// Phase returns the result of a phase, or nil.
func (r *Report) Phase(name Phase) *Result {
	for _, p := range r.Phases {
		if p.Name == name {
			return p
		}
	}
	return nil
}
