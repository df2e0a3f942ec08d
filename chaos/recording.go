package main

import (
	"context"
	"slices"
	"time"

	"github.com/later-queue/later"
)

// recordingStore writes down what a worker is told by its store.
type recordingStore struct {
	later.Store
	log *recorder
}

// Watch implements [later.Waker], as both stores do: a worker looks for it.
func (s *recordingStore) Watch(worker string, queues []string) later.Watch {
	return s.Store.(later.Waker).Watch(worker, queues)
}

func (s *recordingStore) Claim(ctx context.Context, req later.ClaimRequest) ([]*later.Claimed, error) {
	sent := now()
	jobs, err := s.Store.Claim(ctx, req)
	s.claimed(sent, jobs)
	return jobs, err
}

func (s *recordingStore) Sweep(ctx context.Context, req later.SweepRequest) ([]*later.Claimed, error) {
	sent := now()
	jobs, err := s.Store.Sweep(ctx, req)
	s.claimed(sent, jobs)
	return jobs, err
}

func (s *recordingStore) claimed(sent int64, jobs []*later.Claimed) {
	reply := now()
	events := make([]event, len(jobs))
	for i, job := range jobs {
		events[i] = leaseEvent(evClaim, sent, reply, job.Lease, string(job.Doom))
		events[i].number = int64(job.Attempt)
	}
	s.log.add(events...)
}

func (s *recordingStore) Renew(ctx context.Context, leases []later.Lease, d time.Duration) (later.Renewed, error) {
	sent := now()
	renewed, err := s.Store.Renew(ctx, leases, d)
	if err != nil {
		return renewed, err
	}
	not := map[later.Lease]bool{}
	for _, lease := range slices.Concat(renewed.Lost, renewed.Passed) {
		not[lease] = true
	}
	reply := now()
	var events []event
	for _, lease := range leases {
		if !not[lease] {
			events = append(events, leaseEvent(evRenew, sent, reply, lease, ""))
		}
	}
	s.log.add(events...)
	return renewed, nil
}

func (s *recordingStore) Settle(ctx context.Context, settlements []later.Settlement) ([]later.Lease, error) {
	sent := now()
	events := make([]event, len(settlements))
	for i, st := range settlements {
		events[i] = leaseEvent(evSend, sent, 0, st.Lease, string(st.Outcome))
	}
	s.log.add(events...)
	refused, err := s.Store.Settle(ctx, settlements)
	if err != nil {
		return refused, err
	}
	isRefused := map[later.Lease]bool{}
	for _, lease := range refused {
		isRefused[lease] = true
	}
	reply := now()
	for i, st := range settlements {
		events[i].kind, events[i].reply = evAccept, reply
		if isRefused[st.Lease] {
			events[i].kind = evRefuse
		}
	}
	s.log.add(events...)
	return refused, nil
}
