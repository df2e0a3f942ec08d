package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/later-queue/later/internal/demo/mailapi"
)

// The values of a zero [Config].
const (
	DefaultOrders = 200
	// DefaultSpread is long enough to watch and short enough to wait.
	DefaultSpread = 10 * time.Second
	// DefaultWorkers is the number of worker processes at a time.
	DefaultWorkers = 4
)

// MinOrders is the fewest orders with which everything that is to be shown
// happens.
const MinOrders = 50

const (
	// stall is how long no order may be taken and no job may end until the demo
	// gives up and says what is left. Chosen: far longer than a killed worker's
	// jobs and the longest backoff take, even on a busy machine.
	stall = 60 * time.Second
	// drainLimit is how long the workers have at the end. Chosen as above; a
	// worker's own limit is shorter.
	drainLimit = 30 * time.Second
)

// Config is how the demo runs. Out must be set.
type Config struct {
	// DB is the database's URL; "" is an SQLite file in Dir. A file must not
	// exist yet. On Postgres, everything is in a schema of the demo's own.
	DB string
	// Schema is that schema, which must not exist; "" is a fresh name.
	Schema string
	// Dir is the folder for the mails, the workers' messages and the SQLite
	// file; "" is a new one among the temporary files. Neither a mail nor a
	// database may be in it.
	Dir string
	// Remove removes the folder, if it is a temporary one, and the schema at
	// the end; but not when something is wrong.
	Remove bool
	// Seed decides about customers, faults and victims. What happens at what
	// moment is up to the machine.
	Seed int64
	// Orders is how many orders are taken; 0 is DefaultOrders, at least
	// MinOrders.
	Orders int
	// Spread is how long it takes to take them; 0 is DefaultSpread.
	Spread time.Duration
	// Workers is the number of worker processes; 0 is DefaultWorkers, at least 3.
	Workers int

	// Out gets the picture and the report.
	Out io.Writer
	// Colour: Out understands colours.
	Colour bool
	// Command is how the person calls the command later; "" is later.
	Command string
}

var (
	// ErrConfig is matched when nothing was begun, because a [Config] is wrong
	// or its place is taken.
	ErrConfig = errors.New("the demo cannot be run like this")
	// ErrInterrupted is matched when the context ended before the demo.
	ErrInterrupted = errors.New("the demo was interrupted")
	// ErrTally means that the books do not agree: Later has broken a promise.
	ErrTally = errors.New("the tally does not add up")
)

func (c Config) withDefaults() (Config, error) {
	if c.Orders == 0 {
		c.Orders = DefaultOrders
	}
	if c.Spread == 0 {
		c.Spread = DefaultSpread
	}
	if c.Workers == 0 {
		c.Workers = DefaultWorkers
	}
	if c.Command == "" {
		c.Command = "later"
	}
	switch {
	case c.Orders < MinOrders:
		return c, fmt.Errorf("%w: %d orders are too few, it takes %d", ErrConfig, c.Orders, MinOrders)
	case c.Spread < 0:
		return c, fmt.Errorf("%w: they cannot be spread over %v", ErrConfig, c.Spread)
	case c.Workers < 3:
		return c, fmt.Errorf("%w: %d workers are too few: one is killed, one is drained, so it takes 3", ErrConfig, c.Workers)
	}
	return c, nil
}

// demo is one run.
type demo struct {
	config  Config
	place   place
	shop    *shop
	mail    *mailapi.Server
	fleet   *fleet
	sales   *sales
	story   *story
	mishaps *mishaps
}

// Run plays the demo. Its error matches [ErrTally] when the tally, which is
// returned and reported then too, does not add up.
func Run(ctx context.Context, config Config) (*Tally, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	at, err := newPlace(config)
	if err != nil {
		return nil, err
	}
	d := &demo{config: config, place: at, story: newStory()}
	tally, err := d.run(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		err = ErrInterrupted
	case err == nil && !tally.OK():
		err = ErrTally
	}
	if config.Remove && (err == nil || errors.Is(err, ErrInterrupted)) {
		return tally, errors.Join(err, d.remove())
	}
	if err != nil {
		err = fmt.Errorf("%w; what there is lies in %s", err, at.Dir)
	}
	return tally, err
}

func (d *demo) run(ctx context.Context) (_ *Tally, err error) {
	if d.place.Schema != "" {
		if err := createSchema(ctx, d.place); err != nil {
			return nil, err
		}
	}
	if d.shop, err = openShop(ctx, d.place); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.shop.Close()) }()
	if err := d.shop.setUp(ctx); err != nil {
		return nil, err
	}
	random := seeded(d.config.Seed)
	d.sales = &sales{shop: d.shop, wanted: d.config.Orders, spread: d.config.Spread, random: random}
	d.mishaps = newMishaps(d, random.Perm(d.config.Workers))
	outbox := filepath.Join(d.place.Dir, outboxFile)
	d.mail, err = mailapi.New(mailapi.Config{Outbox: outbox, Seed: d.config.Seed, Written: d.mishaps.written})
	if err != nil {
		return nil, err
	}
	d.fleet = &fleet{place: d.place, mail: d.mail.URL(), story: d.story}
	defer d.fleet.killAll()
	served := make(chan error, 1)
	go func() { served <- d.mail.Serve() }()
	err = d.play(ctx)
	if err := errors.Join(err, d.mail.Close(), <-served); err != nil {
		return nil, err
	}
	f, err := d.facts(ctx, outbox)
	if err != nil {
		return nil, err
	}
	tally := f.tally()
	return tally, d.report(tally)
}

func seeded(seed int64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 0)) }

// play starts the workers, takes the orders, and returns when every job has
// ended and every worker has gone.
func (d *demo) play(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	view := d.newView()
	d.story.listen(view.hear)
	defer view.close()
	for range d.config.Workers {
		if err := d.fleet.start(""); err != nil {
			return err
		}
	}
	d.story.tell("%d worker processes, %d jobs at a time each", d.config.Workers, slots)

	sold := make(chan struct{})
	go func() {
		defer close(sold)
		if err := d.sales.run(ctx); err != nil {
			fail(err)
		}
	}()
	misfortune := make(chan struct{})
	go func() {
		defer close(misfortune)
		if err := d.mishaps.run(ctx); err != nil {
			fail(err)
		}
	}()
	err := d.wait(ctx, view, sold, misfortune)
	fail(err)
	<-sold
	<-misfortune
	if err != nil {
		return err
	}
	d.fleet.drainAll(drainLimit)
	d.story.tell("everything has ended; the workers that were left have drained")
	return nil
}

// wait shows what happens until nothing is left to do.
func (d *demo) wait(ctx context.Context, view view, sold, misfortune <-chan struct{}) error {
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	var last [2]int // orders taken, jobs left
	moved := time.Now()
	for {
		select {
		case <-sold:
			sold = nil
			if taken, _ := d.sales.counts(); taken == d.config.Orders {
				d.story.tell("all %d orders are taken", taken)
			}
		case <-misfortune:
			misfortune = nil
		case <-tick.C:
		case <-ctx.Done():
		}
		if err := d.fleet.lost(); err != nil {
			return err
		}
		view.show(d.look(ctx))
		left, err := d.shop.jobsLeft(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx) // whatever else failed, failed because of it
		}
		if err != nil {
			return fmt.Errorf("count the jobs: %w", err)
		}
		taken, _ := d.sales.counts()
		if now := [2]int{taken, left}; now != last {
			last, moved = now, time.Now()
		}
		switch {
		case sold == nil && misfortune == nil && left == 0:
			return nil
		case time.Since(moved) > stall:
			d.story.tell("gave up: nothing has moved for %v", stall)
			return nil // the tally says what is missing
		}
	}
}

// remove removes what the demo made.
func (d *demo) remove() error {
	if d.config.Dir == "" {
		if err := os.RemoveAll(d.place.Dir); err != nil {
			return fmt.Errorf("remove the demo's files: %w", err)
		}
	}
	return dropSchema(d.place)
}
