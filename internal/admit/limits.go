// Package admit decides whether jobs under limits may start. It only calculates: what was let
// in before, and whether that still runs, the stores know.
package admit

import (
	"maps"
	"slices"

	"github.com/later-queue/later"
)

// Limits are the limits of a store. nil has none.
type Limits struct {
	own     map[later.Scope]later.Limit
	tenants later.Limit // of each tenant, where its own does not say otherwise
}

// NewLimits returns limits by their scopes.
func NewLimits(of map[later.Scope]later.Limit) *Limits {
	l := &Limits{own: maps.Clone(of)}
	l.tenants = l.own[later.Scope{Of: later.ScopeTenants}]
	return l
}

// Of is what holds for a queue, a kind or a tenant.
func (l *Limits) Of(scope later.Scope) later.Limit {
	if l == nil {
		return later.Limit{}
	}
	limit := l.own[scope]
	if scope.Of != later.ScopeTenant || scope.Name == "" {
		return limit
	}
	if _, capped := limit.Cap(); !capped {
		limit.MaxRunning, limit.Ordered, limit.OnDead = l.tenants.MaxRunning, l.tenants.Ordered, l.tenants.OnDead
	}
	if limit.Rate == (later.Rate{}) {
		limit.Rate = l.tenants.Rate
	}
	return limit
}

// Over are the scopes of a job whose limits can hold it back: at most its queue, its kind and
// its tenant.
func (l *Limits) Over(queue, kind, tenant string) []later.Scope {
	if !l.Any() {
		return nil
	}
	return slices.DeleteFunc([]later.Scope{
		{Of: later.ScopeQueue, Name: queue}, {Of: later.ScopeKind, Name: kind}, {Of: later.ScopeTenant, Name: tenant},
	}, func(scope later.Scope) bool { return !l.Of(scope).Holds() })
}

// Any reports whether there are limits.
func (l *Limits) Any() bool { return l != nil && len(l.own) > 0 }

// Tenants reports whether a tenant can be held back, or has a weight.
func (l *Limits) Tenants() bool {
	if l == nil {
		return false
	}
	for scope := range l.own {
		if scope.Of == later.ScopeTenants || scope.Of == later.ScopeTenant {
			return true
		}
	}
	return false
}

// LimitedTenants are the tenants that can be held back: all, or those that are named.
func (l *Limits) LimitedTenants() (all bool, named []string) {
	if l == nil {
		return false, nil
	}
	for scope, limit := range l.own {
		switch {
		case scope.Of == later.ScopeTenants && limit.Holds():
			all = true
		case scope.Of == later.ScopeTenant && limit.Holds():
			named = append(named, scope.Name)
		}
	}
	return all, named
}

// Weight is how many jobs a tenant has in its turn.
func (l *Limits) Weight(tenant string) int {
	if l == nil {
		return 1
	}
	return max(l.own[later.Scope{Of: later.ScopeTenant, Name: tenant}].Weight, 1)
}
