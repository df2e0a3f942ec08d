package worker

import (
	"context"
	"fmt"
)

// tell calls the hooks for a failed attempt, or a job that has expired, that has
// been stored, then gives its slot back.
func (r *run) tell(a *attempt) {
	if a.verdict.failure == nil {
		r.hook("OnExpired", a, func(ctx context.Context) { r.cfg.OnExpired(ctx, a.claimed.Record) })
		r.told(a)
		return
	}
	f := *a.verdict.failure
	if a.handler != nil && r.cfg.OnError != nil { // not for a lost worker's job, which nobody ran
		r.hook("OnError", a, func(ctx context.Context) { r.cfg.OnError(ctx, f) })
	}
	if f.Reason != "" && r.cfg.OnDead != nil {
		r.hook("OnDead", a, func(ctx context.Context) { r.cfg.OnDead(ctx, f) })
	}
	r.told(a)
}

// told gives back the slot that the hooks needed.
func (r *run) told(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooking--
	a.hooks = false
	r.freeSlot(a)
	r.poke()
}

// hook calls one hook, catches its panic, and stops waiting for it after
// HookTimeout.
func (r *run) hook(name string, a *attempt, call func(context.Context)) {
	ctx, cancel := r.op(HookTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				err := fmt.Errorf("hook %s: %w", name, &PanicError{Value: value})
				r.log.Error("hook panicked", a.attrs("err", err)...)
			}
		}()
		call(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		default:
			r.log.Error("hook does not return", a.attrs("err", fmt.Errorf("hook %s: %w", name, ctx.Err()))...)
		}
	}
}
