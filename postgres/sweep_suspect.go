package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/later-queue/later"
)

// suspects finds the suspect that is to run next, through job_suspect: the first of each queue
// and kind.
const suspects = `
  select {what}
  from unnest({queues}::text[]) as q (queue)
  cross join unnest({kinds}::text[]) as k (kind)
  cross join lateral (
    select j.ctid, j.priority, j.run_at, j.id, j.tenant
    from {schema}.job j
    where j.crashes > 0
      and j.queue = q.queue
      and j.kind = k.kind
      and j.run_at <= now()
      and j.crashes + (j.lease_until is not null)::int between {suspectCrashes} and {crashLimit} - 1
      and j.max_attempts > 1
      and j.cancel_at is null
      and (j.expires_at is null or j.expires_at > now())
      and (j.lease_until is null or j.lease_until < now())
      and {only}
      and not j.tenant = any({paused}::text[])
      and ({tenants}::text[] is null or j.tenant = any({tenants}::text[]))
    order by j.priority, j.run_at
    limit 1
  ) first
  where {wanted}
  order by first.priority, first.run_at, first.id
  limit 1
`

// sweptSuspect is the part of sweepJobs; if $13 is an id, it is for that one only. It finds none if the
// gates are of another version than $14: what was looked up may not hold any more.
var sweptSuspect = strings.NewReplacer("{what}", "first.ctid", "{queues}", "$5", "{kinds}", "$6", "{suspectCrashes}", "$3",
	"{crashLimit}", "$2", "{paused}", "$11", "{tenants}", "$12", "{wanted}", "$4 and exists (select from {schema}.gate_version v where v.one and v.version = $14)", "{only}", "($13::bigint is null or j.id = $13)").Replace(suspects)

// firstSuspect tells which one that is.
var firstSuspect = strings.NewReplacer("{what}", "first.id, q.queue, k.kind, first.tenant::text", "{queues}", "$1", "{kinds}", "$2",
	"{suspectCrashes}", "$3", "{crashLimit}", "$4", "{paused}", "$5", "{tenants}", "$6", "{wanted}", "true", "{only}", "true").Replace(suspects)

// maxSuspects bounds how many suspects a sweep asks limits about. Chosen: the next sweep goes on.
const maxSuspects = 10

// admitSuspect leases the first suspect that all its limits let in, if there is one.
func (s *Store) admitSuspect(ctx context.Context, set *gateSet, req later.SweepRequest) ([]*later.Claimed, error) {
	type suspect struct {
		ID                  int64
		Queue, Kind, Tenant string
	}
	queues, kinds, tenants := set.openNames(later.ScopeQueue, req.Queues), set.openNames(later.ScopeKind, req.Kinds), append([]string{}, set.tenants...)
	for range maxSuspects {
		found, err := query(ctx, s, statement{name: "look for a suspect", sql: firstSuspect, args: []any{
			queues, kinds, int32(later.SuspectCrashes), int32(later.CrashLimit), tenants, req.Tenants,
		}}, pgx.RowToStructByPos[suspect])
		if err != nil || len(found) == 0 {
			return nil, err
		}
		one := found[0]
		jobs, closed, err := s.tryAdmit(ctx, set, req, one.ID, set.limits.Over(one.Queue, one.Kind, one.Tenant))
		if err != nil {
			return nil, fmt.Errorf("sweep a suspect: %w", s.classify(err))
		}
		switch closed.Of {
		case "":
			return jobs, nil
		case later.ScopeQueue:
			queues = slices.DeleteFunc(queues, func(name string) bool { return name == closed.Name })
		case later.ScopeKind:
			kinds = slices.DeleteFunc(kinds, func(name string) bool { return name == closed.Name })
		default:
			tenants = append(tenants, closed.Name)
		}
	}
	return nil, nil
}

// tryAdmit leases a suspect if its limits let it in; else it returns one of them that does not.
func (s *Store) tryAdmit(ctx context.Context, set *gateSet, req later.SweepRequest, id int64, scopes []later.Scope) (
	jobs []*later.Claimed, closed later.Scope, err error,
) {
	a, err := s.admit(ctx, set, scopes, nil, false)
	if err != nil {
		return nil, later.Scope{}, err
	}
	defer a.end(ctx)
	for _, scope := range scopes {
		g := a.gates[scope]
		if g == nil {
			return nil, scope, nil
		}
		// Its own ended lease takes up no place beside the new one.
		g.ended = slices.DeleteFunc(g.ended, func(had int64) bool { return had == id })
		if g.room() == 0 && (!g.Limit.Ordered || g.runs || !g.Lets(id, g.now)) {
			return nil, scope, nil
		}
	}
	args := s.sweepArgs(set, req)
	args[0], args[12] = int32(0), &id // none but this one
	rows, err := a.conn.Query(ctx, s.sql(sweepJobs), args...)
	if err != nil {
		return nil, later.Scope{}, err
	}
	if jobs, err = pgx.CollectRows(rows, s.sweptRow(req)); err != nil {
		return nil, later.Scope{}, err
	}
	for _, job := range jobs {
		job.Limited = len(scopes) > 0
		a.let(set, job)
	}
	if err, kept := a.commit(ctx), (*placeKept)(nil); errors.As(err, &kept) {
		return nil, later.Scope{}, nil // the next sweep tries again
	} else if err != nil {
		return nil, later.Scope{}, err
	}
	for _, job := range jobs {
		s.holding.started(job.ID, scopes)
	}
	return jobs, later.Scope{}, nil
}
