// BullMQ on Redis (Node.js).
//
// `bench` has the concurrency of https://docs.bullmq.io/guide/workers/concurrency, which
// was a tenth faster here than the "something between 100 and 300" of
// https://docs.bullmq.io/guide/parallelism-and-concurrency (two processes: 14,768 and
// 15,649 jobs/s in two runs, against 13,146 and 14,164 with 100); addBulk for many jobs
// (https://docs.bullmq.io/guide/queues/adding-bulks); and finished jobs removed
// (https://docs.bullmq.io/guide/queues/auto-removal-of-jobs). `defaults` is what the
// library does by itself: one job at a time, and every finished job kept.
import { Redis } from 'ioredis';
import { queueName, session } from './bullmq.mjs';
import { run, version } from './protocol.mjs';

const settings = {
  bench: { worker: { concurrency: 50 }, job: { removeOnComplete: true } },
  defaults: {},
};

await run({
  name: 'bullmq-redis',
  version: version('bullmq'),
  settings: {
    bench: 'concurrency 50, removeOnComplete',
    defaults: 'concurrency 1, finished jobs kept (the library defaults)',
  },

  async open(url, setting) {
    // BullMQ asks for maxRetriesPerRequest null: https://docs.bullmq.io/guide/connections.
    const redis = new Redis(url, { maxRetriesPerRequest: null });
    const { close, ...rest } = session({ connection: redis, ...settings[setting] });
    return {
      ...rest,
      // Only the queue's own keys: the server may be somebody's.
      async setup() {
        for await (const keys of redis.scanStream({ match: `bull:${queueName}:*`, count: 1000 })) {
          if (keys.length > 0) await redis.unlink(keys);
        }
      },
      async close() {
        await close();
        redis.disconnect();
      },
    };
  },
});
