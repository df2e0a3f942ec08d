package drive

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/later-queue/later/lab/data"
)

// Stamps are the times in a file of lines "seq unixMicros", by seq. Of several lines
// with one seq the earliest counts: a job may start more than once.
type Stamps map[int64]int64

// ReadStamps reads files; the workers of one contender have one each.
func ReadStamps(names ...string) (Stamps, error) {
	stamps := Stamps{}
	for _, name := range names {
		if err := stamps.read(name); err != nil {
			return nil, fmt.Errorf("read stamps %s: %w", name, err)
		}
	}
	return stamps, nil
}

func (s Stamps) read(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		left, right, _ := strings.Cut(lines.Text(), " ")
		seq, err := strconv.ParseInt(left, 10, 64)
		if err != nil {
			return err
		}
		at, err := strconv.ParseInt(strings.TrimSpace(right), 10, 64)
		if err != nil {
			return err
		}
		if old, again := s[seq]; !again || at < old {
			s[seq] = at
		}
	}
	return lines.Err()
}

// Latency is one job's way from the enqueue's answer to the handler.
type Latency struct {
	AckedAt int64   // microseconds since 1970
	Micros  float64 // from then to the start of its handler; 0 when that came before
}

// Join pairs what was enqueued with what was started. missing counts jobs that were
// enqueued and never started: their latency is the time until end (microseconds since
// 1970), when the workers were stopped, which is less than it would have been. Without
// them a contender would look the better the less it did. The latencies come in the
// order of AckedAt.
func Join(acked, started Stamps, end int64) (latencies []Latency, missing int64) {
	latencies = make([]Latency, 0, len(acked))
	for seq, ack := range acked {
		start, ok := started[seq]
		if !ok {
			missing++
			start = end
		}
		latencies = append(latencies, Latency{AckedAt: ack, Micros: float64(max(0, start-ack))})
	}
	slices.SortFunc(latencies, func(a, b Latency) int { return int(a.AckedAt - b.AckedAt) })
	return latencies, missing
}

// Micros returns the latencies alone, sorted.
func Micros(latencies []Latency) []float64 {
	micros := make([]float64, len(latencies))
	for i, l := range latencies {
		micros[i] = l.Micros
	}
	slices.Sort(micros)
	return micros
}

// OverTime cuts the time since start (microseconds since 1970) into steps of so many
// seconds, and returns the share p of the latencies in each: [seconds, microseconds].
// A step without jobs has no point.
func OverTime(latencies []Latency, start int64, step, p float64) []data.Point {
	byStep := map[int][]float64{}
	last := 0
	for _, l := range latencies {
		i := int(float64(l.AckedAt-start) / 1e6 / step)
		byStep[i] = append(byStep[i], l.Micros)
		last = max(last, i)
	}
	var points []data.Point
	for i := 0; i <= last; i++ {
		if values := byStep[i]; len(values) > 0 {
			slices.Sort(values)
			points = append(points, data.Point{float64(i+1) * step, data.Percentile(values, p)})
		}
	}
	return points
}

// PerSecond cuts the time since start likewise, and returns how many stamps a second
// fall into each step: [seconds, per second].
func PerSecond(stamps Stamps, start int64, step float64) []data.Point {
	count := map[int]int{}
	last := -1
	for _, at := range stamps {
		i := int(float64(at-start) / 1e6 / step)
		if at < start {
			i = 0
		}
		count[i]++
		last = max(last, i)
	}
	points := make([]data.Point, 0, last+1)
	for i := 0; i <= last; i++ {
		points = append(points, data.Point{float64(i+1) * step, float64(count[i]) / step})
	}
	return points
}
