package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/later-queue/later"
)

// The kinds and the queue of a run's jobs.
const (
	kindPrefix  = "bench."
	waitingKind = "waiting" // that no worker of the run has
	queueName   = later.DefaultQueue
)

// nextWeek is when the jobs of Config.Scheduled are due.
const nextWeek = 7 * 24 * time.Hour

// work makes the jobs of a run: their payload, kind, tenant and priority follow
// from their number.
type work struct {
	cfg  Config
	text string // of which each payload takes a piece
}

// letters make a text that compresses as badly as most payloads do. Without
// characters that JSON escapes.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"

func newWork(cfg Config) work {
	random := rand.New(rand.NewPCG(1, 2)) // the same payloads in each run
	var b strings.Builder
	for range cfg.Payload + 4096 {
		b.WriteByte(letters[random.IntN(len(letters))])
	}
	return work{cfg: cfg, text: b.String()}
}

const (
	payloadHead = `{"seq":`
	payloadText = `,"text":"`
	payloadEnd  = `"}`
)

// payload returns the payload of job number seq, Config.Payload bytes long.
func (w work) payload(seq int) json.RawMessage {
	p := make([]byte, 0, w.cfg.Payload)
	p = append(p, payloadHead...)
	p = strconv.AppendInt(p, int64(seq), 10)
	p = append(p, payloadText...)
	rest := w.cfg.Payload - len(p) - len(payloadEnd)
	from := seq % 4096
	p = append(p, w.text[from:from+rest]...)
	return append(p, payloadEnd...)
}

// seqOf returns the number in a payload, or -1 when it is none of ours.
func seqOf(payload []byte) int {
	if len(payload) < len(payloadHead) || string(payload[:len(payloadHead)]) != payloadHead {
		return -1
	}
	n, digits := 0, payload[len(payloadHead):]
	for i, c := range digits {
		if c < '0' || c > '9' {
			if i == 0 {
				return -1
			}
			return n
		}
		n = n*10 + int(c-'0')
	}
	return -1
}

func (w work) kind(n int) string { return kindPrefix + strconv.Itoa(n%w.cfg.Kinds) }

// request is job number seq.
func (w work) request(seq int) later.Request {
	opts := later.Options{Queue: queueName, Priority: int16(seq % w.cfg.Priorities)}
	if w.cfg.Tenants > 0 {
		opts.Tenant = fmt.Sprintf("tenant-%d", seq%w.cfg.Tenants)
	}
	return later.Request{Args: later.RawArgs{JobKind: w.kind(seq), Payload: w.payload(seq)}, Options: opts}
}

// waiting is job number seq of those that nobody here does.
func (w work) waiting(seq int) later.Request {
	r := w.request(seq)
	r.Args = later.RawArgs{JobKind: waitingKind, Payload: w.payload(seq)}
	return r
}

// scheduled is job number seq of those that are due next week.
func (w work) scheduled(seq int) later.Request {
	r := w.request(seq)
	r.Options.Delay = nextWeek
	return r
}
