// Package data is what a race leaves behind: one JSON file per race, which the plots
// and docs/benchmarks.md are made of.
package data

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Race is one race, all its rounds in one run on one machine. Only figures within
// one Race may be compared.
type Race struct {
	Race    string    `json:"race"`
	About   string    `json:"about"`
	Machine Machine   `json:"machine"`
	When    time.Time `json:"when"`
	// Took is the whole race, in seconds.
	Took float64 `json:"took"`
	// Commit is that of the repository; it ends in "+" when files had been changed.
	Commit string `json:"commit"`
	// Quick says that the sizes are those for trying, not for showing.
	Quick bool `json:"quick,omitempty"`
	// Command repeats the race.
	Command string `json:"command"`
	// Servers are the settings of the database servers, by the name in Round.Server.
	Servers map[string]map[string]string `json:"servers"`
	// Contenders are those that took part, by name, in their own words.
	Contenders map[string]Contender `json:"contenders"`
	Rounds     []Round              `json:"rounds"`
}

// Machine is where the race was run.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes"`
	System      string `json:"system"`
	Go          string `json:"go"`
}

// Contender is what a contender says of itself.
type Contender struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Settings says in words what each setting means, and where that comes from.
	Settings map[string]string `json:"settings"`
}

// Round is one contender, in one setting, once. Fields that do not apply are left
// out. "Per job" is per job done, unless it says otherwise; times of the server are
// those of all its processes together, the client's those of all work processes.
type Round struct {
	Contender string `json:"contender"`
	Settings  string `json:"settings"`
	// Server names the database server and what is special about it: "postgres",
	// "redis-everysec", "redis-always", "sqlite".
	Server    string `json:"server"`
	Processes int    `json:"processes,omitempty"`
	// Condition is the state of the tables, where a race compares several: "held".
	Condition string `json:"condition,omitempty"`
	Round     int    `json:"round"`

	// Jobs counts what Seconds and Rate are about: jobs done, or enqueued in a race
	// of enqueuing.
	Jobs    int64   `json:"jobs,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Rate    float64 `json:"rate,omitempty"`
	// Backlog is how many jobs were ready when the workers started.
	Backlog int64 `json:"backlog,omitempty"`
	// Cut says that the time was over before the jobs were: the rate is that of the
	// time there was.
	Cut bool `json:"cut,omitempty"`
	// Left counts the jobs that the database still held after the workers had
	// stopped in good order, beyond those that they had not handled: work that was
	// done and not recorded.
	Left int64 `json:"left,omitempty"`

	EnqueueRate    float64 `json:"enqueue_rate,omitempty"`
	EnqueueWAL     float64 `json:"enqueue_wal_bytes_per_job,omitempty"`
	EnqueueCPU     float64 `json:"enqueue_server_cpu_us_per_job,omitempty"`
	ServerCPU      float64 `json:"server_cpu_us_per_job,omitempty"`
	ClientCPU      float64 `json:"client_cpu_us_per_job,omitempty"`
	WALBytes       float64 `json:"wal_bytes_per_job,omitempty"`
	Commits        float64 `json:"commits_per_job,omitempty"`
	TuplesInserted float64 `json:"tuples_inserted_per_job,omitempty"`
	TuplesUpdated  float64 `json:"tuples_updated_per_job,omitempty"`
	TuplesDeleted  float64 `json:"tuples_deleted_per_job,omitempty"`
	MaxMemoryBytes int64   `json:"max_memory_bytes,omitempty"`        // of the largest work process
	IdleCommits    float64 `json:"idle_commits_per_second,omitempty"` // of one work process with nothing to do

	// Latency from the enqueue's answer to the handler's start, in microseconds, 1 at
	// least. A job that was never started counts with the time until the workers were
	// stopped, which is less than it would have been.
	P50  float64 `json:"p50_us,omitempty"`
	P90  float64 `json:"p90_us,omitempty"`
	P99  float64 `json:"p99_us,omitempty"`
	P999 float64 `json:"p999_us,omitempty"`
	Max  float64 `json:"max_us,omitempty"`
	// Missing counts jobs that were enqueued and never seen by a handler.
	Missing int64 `json:"missing,omitempty"`

	// Points is the curve of the round: of a latency race [share 0…1, microseconds],
	// else what Series says by name.
	Points []Point `json:"points,omitempty"`
	// Series are curves over time in seconds: "done" and "acked" (jobs per second),
	// "p50_us" and "p99_us", "server_cpu_us" (per job).
	Series map[string][]Point `json:"series,omitempty"`

	// Note is for the reader; Error says why there are no figures.
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"`
}

// Point is x and y.
type Point [2]float64

// Write stores a race as dir/RACE.json.
func Write(dir string, race *Race) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write race %s: %w", race.Race, err)
	}
	text, err := json.MarshalIndent(race, "", " ")
	if err != nil {
		return fmt.Errorf("write race %s: %w", race.Race, err)
	}
	name := filepath.Join(dir, race.Race+".json")
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write race %s: %w", race.Race, err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("write race %s: %w", race.Race, err)
	}
	return nil
}

// Read reads one race's file.
func Read(name string) (*Race, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read race: %w", err)
	}
	race := new(Race)
	if err := json.Unmarshal(text, race); err != nil {
		return nil, fmt.Errorf("read race %s: %w", name, err)
	}
	return race, nil
}
