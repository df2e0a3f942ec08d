package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/later-queue/later"
	"github.com/later-queue/later/internal/demo/mailapi"
)

// OrderConfirmation is the job that confirms an order by mail.
type OrderConfirmation struct {
	OrderID int64 `json:"order_id"`
}

// Kind is the contract between whoever enqueues the job and whoever runs it.
func (OrderConfirmation) Kind() string { return "order.confirm" }

// errDeclined rolls an order back after it and its job were written.
var errDeclined = errors.New("card declined")

// takeOrder stores the order and its job in one transaction: there is never an
// order without its job, nor a job without its order.
func (s *shop) takeOrder(ctx context.Context, o order) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	if _, err := tx.ExecContext(ctx, `insert into orders (id, email, cents) values ($1, $2, $3)`, o.id, o.email, o.cents); err != nil {
		return err
	}
	if _, err := s.enqueueTx(ctx, tx, OrderConfirmation{OrderID: o.id}, later.Options{MaxAttempts: 25, Timeout: 10 * time.Second}); err != nil {
		return err
	}
	if o.declined {
		return errDeclined // takes the order and its job along
	}
	return tx.Commit()
}

// confirm sends the mail of an order and notes it in the shop's books. It may
// run more than once for an order; its effects happen once. Two means do that,
// one for each side:
//
//   - the mail service is another system, which no transaction of ours reaches:
//     it gets the job's idempotency key and ignores what it has done before;
//   - the shop's own table changes in the transaction that ends the job: both
//     are committed or neither is, and DoneTx refuses when the job has meanwhile
//     been given to another worker.
func (s *shop) confirm(ctx context.Context, job *later.Job[OrderConfirmation]) error {
	o, err := s.findOrder(ctx, job.Payload.OrderID)
	if errors.Is(err, sql.ErrNoRows) {
		return later.Permanent(fmt.Errorf("order %d does not exist", job.Payload.OrderID))
	}
	if err != nil {
		return err
	}

	mailID, err := s.mail.Send(ctx, job.IdempotencyKey(), mailapi.Mail{
		To: o.email, Order: o.id, Subject: fmt.Sprintf("Your order %d over %d.%02d €", o.id, o.cents/100, o.cents%100),
	})
	if err != nil {
		return outcome(err)
	}

	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `insert into confirmation (order_id, mail_id, worker) values ($1, $2, $3)`, o.id, mailID, s.name); err != nil {
		return err
	}
	if err := s.doneTx(ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit()
}

// outcome says what an error of the mail service means for the job: give up on
// what it will never accept, wait as long as it asks, and else try again.
func outcome(err error) error {
	var refusal *mailapi.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Final():
		return later.Permanent(err)
	case errors.As(err, &refusal) && refusal.RetryAfter > 0:
		return later.RetryAfter(err, refusal.RetryAfter)
	default:
		return err
	}
}
