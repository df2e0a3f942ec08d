package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/later-queue/later"
)

// sales takes the orders. The customers are told at once what became of theirs.
type sales struct {
	shop   *shop
	wanted int // orders to take
	spread time.Duration
	random *rand.Rand

	mu              sync.Mutex
	taken, declined []int64
	poison          []int64
}

// declineEvery: one order in so many is rolled back, beside those wanted.
const declineEvery = 25

// run takes the orders one after the other, spread over the time. Among them
// go two jobs that nobody can do.
func (s *sales) run(ctx context.Context) error {
	pause := s.spread / time.Duration(max(s.wanted, 1))
	for id := int64(1); ; id++ {
		taken, _ := s.counts()
		if taken == s.wanted {
			return nil
		}
		o := order{
			id:       id,
			email:    customers[s.random.IntN(len(customers))] + "@example.com",
			cents:    500 + s.random.Int64N(9500),
			declined: id%declineEvery == declineEvery/2,
		}
		if err := s.take(ctx, o); err != nil {
			return fmt.Errorf("take order %d: %w", id, err)
		}
		if err := s.spoil(ctx, int(id)); err != nil {
			return fmt.Errorf("enqueue what cannot be done: %w", err)
		}
		select {
		case <-time.After(time.Duration((0.5 + s.random.Float64()) * float64(pause))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *sales) take(ctx context.Context, o order) error {
	err := s.shop.takeOrder(ctx, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.taken = append(s.taken, o.id)
	case errors.Is(err, errDeclined):
		s.declined = append(s.declined, o.id)
	default:
		return err
	}
	return nil
}

// noOrder is the id of an order that never was.
const noOrder = 404_404

// spoil enqueues the poisoned jobs at their places among the orders.
func (s *sales) spoil(ctx context.Context, number int) error {
	var id int64
	switch number {
	case s.wanted / 5:
		// A mistake in the shop: it forgot to store the order.
		job, err := later.NewClient(s.shop.store).Enqueue(ctx, OrderConfirmation{OrderID: noOrder}, later.Options{})
		if err != nil {
			return err
		}
		id = job.ID
	case s.wanted * 2 / 5:
		// A mistake in another program, written in another language.
		err := s.shop.db.QueryRowContext(ctx, `insert into `+s.shop.jobTable+` (kind, payload, max_attempts)
values ('order.confirm', '{"order_id": "forty-two"}', 3) returning id`).Scan(&id)
		if err != nil {
			return err
		}
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poison = append(s.poison, id)
	return nil
}

func (s *sales) counts() (taken, declined int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken), len(s.declined)
}

var customers = []string{"ada", "alan", "barbara", "dennis", "donald", "edsger", "frances", "grace", "john", "katherine", "ken", "leslie", "margaret", "tony"}
