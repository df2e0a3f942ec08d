package race

import (
	"time"

	"github.com/later-queue/later/lab/course"
)

// slotTime is how long one slot's handler takes on average: a worker with n of them has handlers of n
// times this. So the slots of each lane are full at 5,000 jobs a second, whatever their number,
// and what a light tenant waits for is its turn and not the machine. A million jobs then last
// for more than three minutes.
const slotTime = 200 * time.Microsecond

// backlogOf is how many jobs the heavy tenant has.
const backlogOf = 1_000_000

// Light is the race of a light tenant beside a heavy one.
var Light = Race{
	Name: "light",
	About: "One tenant enqueues a job every 100 ms, for 30 s: the time from the enqueue's answer to the start of the handler. " +
		"In the condition \"beside\" another tenant has enqueued a million jobs before, and the workers have been at them for 2 s; in \"alone\" there is " +
		"nothing else. Handlers take 0.2 ms times the number of slots on average, so that a worker's slots are full at 5,000 jobs a second, whatever their number, " +
		"and the million outlasts the race. A job that was never started counts with the time until the workers were stopped.",
	Course:       course.Light,
	Rate:         10,
	Seconds:      30,
	QuickSeconds: 2,
	Lead:         2 * time.Second,
	Jobs:         backlogOf,
	Rounds:       3,
	Quick:        20,
	Overhead:     8 * time.Minute, // a million jobs are enqueued in at most five
	Lanes: aloneAndBeside(
		slots(10, Lane{Contender: "ours", Settings: "defaults"}),
		slots(1000, Lane{Contender: "ours", Settings: "tuned"}),
		slots(2000, Lane{Contender: "river", Settings: "bench", Note: "one queue, first come, first served: its open-source edition knows no tenants"}),
		slots(24, Lane{Contender: "graphile", Settings: "bench", Note: "plain jobs, first come, first served: it knows no tenants, and a named queue runs one job at a time"}),
		slots(10, Lane{Contender: "asynq", Settings: "queues", Server: "redis-everysec", Note: "a queue for each tenant, which must be known to the worker when it starts"}),
	),
}

// The conditions of the race.
const (
	alone  = "alone"
	beside = "beside"
)

// slots returns the lane with handlers that are right for so many slots.
func slots(n int, l Lane) Lane {
	l.Handler = time.Duration(n) * slotTime
	return l
}

// aloneAndBeside returns each lane without the heavy tenant and with it.
func aloneAndBeside(lanes ...Lane) []Lane {
	var all []Lane
	for _, l := range lanes {
		l.Condition = alone
		all = append(all, l)
		l.Condition, l.FillJobs = beside, backlogOf
		all = append(all, l)
	}
	return all
}
