package demo

import (
	"context"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
)

// picture is how things stand at one moment. Here, and only here, Later is
// asked what it thinks.
type picture struct {
	elapsed         time.Duration
	wanted          int
	taken, declined int
	confirmed       int
	confirmedBy     map[string]int
	jobs            map[later.State]int64
	service         mailapi.Stats
	workers         []workerView
	events          []event
}

// lookTimeout: a picture that comes late is worth nothing.
const lookTimeout = time.Second

// look takes a picture. What cannot be read now is missing in it: the next one
// comes soon.
func (d *demo) look(ctx context.Context) *picture {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	p := &picture{
		elapsed: d.story.elapsed(),
		wanted:  d.config.Orders,
		service: d.mail.Stats(),
		workers: d.fleet.view(),
		events:  d.story.all(),
		jobs:    map[later.State]int64{},
	}
	p.taken, p.declined = d.sales.counts()
	if by, err := d.shop.confirmedBy(ctx); err == nil {
		p.confirmedBy = by
		for _, n := range by {
			p.confirmed += n
		}
	}
	if rows, err := d.shop.store.Status(ctx); err == nil {
		for _, row := range rows {
			p.jobs[row.State] += row.Count
		}
	}
	return p
}
