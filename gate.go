package later

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Scope is a set of jobs that can be held back together.
type Scope struct {
	Of   ScopeOf
	Name string // of the queue, kind or tenant
}

// ScopeOf is what a scope is of.
type ScopeOf string

const (
	ScopeQueue  ScopeOf = "queue"
	ScopeKind   ScopeOf = "kind" // in all queues
	ScopeTenant ScopeOf = "tenant"
)

func (s Scope) String() string {
	if s.Of == ScopeTenants {
		return "every tenant"
	}
	return fmt.Sprintf("%s %q", s.Of, s.Name)
}

// Check returns nil when s names a queue, a kind or a tenant; otherwise a [FieldError].
// Jobs without a tenant are no scope: their queues and kinds are.
func (s Scope) Check() error {
	switch {
	case s.Of == ScopeQueue || s.Of == ScopeKind:
		return CheckName(string(s.Of), s.Name)
	case s.Of == ScopeTenant && s.Name == "":
		return &FieldError{Field: "tenant", Reason: "is empty"}
	case s.Of == ScopeTenant:
		return CheckTenant(s.Name)
	}
	return &FieldError{Field: "scope", Reason: fmt.Sprintf("is %q; it is %q, %q or %q", s.Of, ScopeQueue, ScopeKind, ScopeTenant)}
}

// Pause is a scope whose jobs do not start.
type Pause struct {
	Scope  Scope
	Since  time.Time // by the database's clock
	By     string    // who paused it
	Reason string
}

// MaxByBytes and MaxReasonBytes bound who pauses a scope and why. Chosen: a line each.
const (
	MaxByBytes     = 200
	MaxReasonBytes = 1000
)

// CheckPause returns nil when a scope can be paused by somebody for a reason; otherwise the error
// is a [FieldError]. By must not be empty; both are valid UTF-8 without control characters.
func CheckPause(scope Scope, by, reason string) error {
	if err := scope.Check(); err != nil {
		return err
	}
	if err := checkBy(by); err != nil {
		return err
	}
	return checkLine("reason", reason, MaxReasonBytes)
}

func checkBy(by string) error {
	if by == "" {
		return &FieldError{Field: "by", Reason: "is empty; name who does it"}
	}
	return checkLine("by", by, MaxByBytes)
}

func checkLine(field, value string, most int) error {
	if len(value) > most {
		return &FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(value), most)}
	}
	if CleanText(value, most) != value || strings.ContainsFunc(value, unicode.IsControl) {
		return &FieldError{Field: field, Reason: "is no line of valid UTF-8 without control characters"}
	}
	return nil
}
