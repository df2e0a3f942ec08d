package later

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"sync"
)

// HandlerConfig is what can be set for one kind. The zero value is the default.
type HandlerConfig struct {
	// Backoff is the delay between this kind's attempts.
	Backoff Backoff
}

// Handlers are the kinds that a worker knows. Register all of them before the
// worker starts. It is safe for concurrent use.
type Handlers struct {
	mu     sync.RWMutex
	byKind map[string]*Handler
}

// NewHandlers returns an empty set.
func NewHandlers() *Handlers { return &Handlers{byKind: map[string]*Handler{}} }

// Handler runs the jobs of one kind.
type Handler struct {
	kind   string
	config HandlerConfig
	run    func(ctx context.Context, c *Claimed) error
}

// Handle registers the handler for the kind that P names. What it returns
// decides: nil is done; [Permanent], [RetryAfter] and [Snooze] say what they
// are; any other error is a failed attempt, as are a panic and a timeout. ctx
// ends at the job's timeout, when the lease is lost, when the job is cancelled,
// and at the worker's drain deadline; context.Cause says which. A handler may
// run more than once for one job.
//
// It panics when P is a pointer or an interface, when the kind is no valid name
// or has a handler already, and when fn is nil.
func Handle[P Args](handlers *Handlers, fn func(ctx context.Context, job *Job[P]) error) {
	HandleWith(handlers, HandlerConfig{}, fn)
}

// HandleWith is [Handle] with settings of the kind's own. It also panics when
// they are out of range.
func HandleWith[P Args](handlers *Handlers, config HandlerConfig, fn func(ctx context.Context, job *Job[P]) error) {
	var p P
	switch t := reflect.TypeFor[P](); t.Kind() {
	case reflect.Pointer:
		panic(fmt.Sprintf("later: Handle: %v is a pointer; handle the type that it points to", t))
	case reflect.Interface:
		panic(fmt.Sprintf("later: Handle: %v is an interface; handle a type that implements it", t))
	}
	if fn == nil {
		panic("later: Handle " + p.Kind() + ": the function is nil")
	}
	handlers.add(p.Kind(), config, func(ctx context.Context, c *Claimed) error {
		job := &Job[P]{Claimed: c}
		if err := json.Unmarshal(c.Payload, &job.Payload); err != nil {
			return fmt.Errorf("%w: %w", ErrPayload, err)
		}
		return fn(ctx, job)
	})
}

// HandleRaw registers the handler for a kind that is known only at run time; it
// gets the payload's bytes as they were enqueued. It panics as [HandleWith] does.
func HandleRaw(handlers *Handlers, kind string, config HandlerConfig, fn func(ctx context.Context, job *Job[json.RawMessage]) error) {
	if fn == nil {
		panic("later: Handle " + kind + ": the function is nil")
	}
	handlers.add(kind, config, func(ctx context.Context, c *Claimed) error {
		return fn(ctx, &Job[json.RawMessage]{Claimed: c, Payload: c.Payload})
	})
}

func (h *Handlers) add(kind string, config HandlerConfig, run func(context.Context, *Claimed) error) {
	if err := CheckName("kind", kind); err != nil {
		panic("later: Handle: " + err.Error())
	}
	if err := config.Backoff.Check(); err != nil {
		panic("later: Handle " + kind + ": " + err.Error())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKind[kind] != nil {
		panic("later: Handle: kind " + kind + " has a handler already")
	}
	h.byKind[kind] = &Handler{kind: kind, config: config, run: run}
}

// Kinds returns the registered kinds, sorted.
func (h *Handlers) Kinds() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	kinds := make([]string, 0, len(h.byKind))
	for kind := range h.byKind {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	return kinds
}

// Lookup returns the handler for kind, or nil.
func (h *Handlers) Lookup(kind string) *Handler {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.byKind[kind]
}

// Run decodes the payload and calls the handler. A payload that does not decode
// is an error that matches [ErrPayload]. Panics pass through.
func (h *Handler) Run(ctx context.Context, c *Claimed) error { return h.run(ctx, c) }

// Config returns the kind's settings.
func (h *Handler) Config() HandlerConfig { return h.config }
