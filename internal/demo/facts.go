package demo

import (
	"context"
	"fmt"
	"slices"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
)

// facts is what is known when all is over. The orders come from three books
// that are kept apart: what the shop told its customers, the shop's tables, and
// the mail service's outbox. Later is asked only for the jobs that are left, and
// for the dead.
type facts struct {
	taken, declined []int64        // what the customers were told
	orders          []int64        // rows of the table orders
	confirmations   map[int64]int  // rows of the table confirmation, by order
	mails           []mailapi.Mail // the outbox
	poison          []int64        // ids of the jobs that can only die
	dead            []*later.JobInfo
	left            int // jobs that neither ended nor died

	killedWith  int      // jobs that the killed worker had in hand; 0: none was killed
	drainedWith int      // jobs that the drained worker had in hand; 0: none was drained
	failed      []string // workers that ended in any other way
	service     mailapi.Stats
}

// facts gathers them.
func (d *demo) facts(ctx context.Context, outbox string) (*facts, error) {
	f := &facts{
		taken: d.sales.taken, declined: d.sales.declined, poison: d.sales.poison,
		service: d.mail.Stats(),
	}
	f.killedWith, f.drainedWith = d.mishaps.hands()
	for _, w := range d.fleet.view() {
		if w.fate == failed || w.fate == killed && w.name != d.mishaps.toKill {
			f.failed = append(f.failed, fmt.Sprintf("%s %s", w.name, w.note))
		}
	}
	var err error
	if f.orders, err = d.shop.orders(ctx); err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	if f.confirmations, err = d.shop.confirmations(ctx); err != nil {
		return nil, fmt.Errorf("read the confirmations: %w", err)
	}
	if f.left, err = d.shop.jobsLeft(ctx); err != nil {
		return nil, fmt.Errorf("count the jobs: %w", err)
	}
	if f.mails, err = mailapi.ReadOutbox(outbox); err != nil {
		return nil, err
	}
	f.dead, err = d.shop.store.List(ctx, later.Filter{State: later.StateDead, Limit: 1000})
	if err != nil {
		return nil, fmt.Errorf("list the dead jobs: %w", err)
	}
	slices.SortFunc(f.dead, func(a, b *later.JobInfo) int { return int(a.ID - b.ID) })
	return f, nil
}
