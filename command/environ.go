package command

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/later-queue/later"
)

// environ is base and the job's own variables, which win over base's. All of
// them are set, empty when there is nothing to say, so that none is inherited
// from a worker that runs inside another job.
//
//	LATER_JOB_ID           the job's number
//	LATER_KIND
//	LATER_QUEUE
//	LATER_TENANT           empty: none
//	LATER_ATTEMPT          1 is the first
//	LATER_MAX_ATTEMPTS     2147483647 is unlimited
//	LATER_IDEMPOTENCY_KEY  the same for all attempts of the job
//	LATER_RUN_AT           when the job became due: RFC 3339, UTC
//	LATER_DEADLINE         when this attempt is ended: RFC 3339, UTC; empty: never
//	LATER_HEADERS          a JSON object of strings
func environ(ctx context.Context, base []string, job *later.Claimed) []string {
	if base == nil {
		base = os.Environ()
	}
	deadline := ""
	if at, ok := ctx.Deadline(); ok {
		deadline = at.UTC().Format(time.RFC3339Nano)
	}
	headers := []byte("{}")
	if len(job.Headers) > 0 {
		headers, _ = json.Marshal(job.Headers) // a map of strings always encodes
	}
	// Of two variables with one name, exec takes the later.
	return append(base[:len(base):len(base)],
		"LATER_JOB_ID="+strconv.FormatInt(job.ID, 10),
		"LATER_KIND="+job.Kind,
		"LATER_QUEUE="+job.Queue,
		"LATER_TENANT="+job.Tenant,
		"LATER_ATTEMPT="+strconv.Itoa(job.Attempt),
		"LATER_MAX_ATTEMPTS="+strconv.Itoa(job.MaxAttempts),
		"LATER_IDEMPOTENCY_KEY="+job.IdempotencyKey(),
		"LATER_RUN_AT="+job.RunAt.UTC().Format(time.RFC3339Nano),
		"LATER_DEADLINE="+deadline,
		"LATER_HEADERS="+string(headers),
	)
}
