// BullMQ on PostgreSQL (Node.js).
//
// `bench` follows https://docs.bullmq.io/guide/postgresql: its table of figures has its
// highest at a concurrency of 8 to 32, of which 8 was the fastest here (two processes:
// 1,793 jobs/s, against 1,253 with 16 and 900 with 32); its tuning tips say to give the
// pool as many connections as the concurrency needs, and to remove finished jobs. (It
// also suggests synchronous_commit off; the races compare durable queues, so that stays
// on for all.)
// `defaults` is what the library does by itself: one job at a time, ten connections,
// and every finished job kept.
import { createPostgresBackend, runMigrations } from 'bullmq';
import pg from 'pg';
import { session } from './bullmq.mjs';
import { run, version } from './protocol.mjs';

const concurrency = 8;

const settings = {
  bench: { max: concurrency, worker: { concurrency }, job: { removeOnComplete: true } },
  defaults: {},
};

await run({
  name: 'bullmq-pg',
  version: version('bullmq'),
  settings: {
    bench: `concurrency ${concurrency}, pool of ${concurrency}, removeOnComplete`,
    defaults: 'concurrency 1, pool of 10, finished jobs kept (the library defaults)',
  },

  async open(connectionString, setting, role) {
    const { max, ...rest } = settings[setting];
    if (role === 'setup') {
      return { setup: () => migrate(connectionString), close() {} };
    }
    const connection = { connectionString, ...(max && { max }) };
    return session({ connection, backend: createPostgresBackend, ...rest });
  },
});

async function migrate(connectionString) {
  const pool = new pg.Pool({ connectionString, max: 1 });
  const client = await pool.connect();
  try {
    await client.query('drop schema if exists bullmq cascade');
    await runMigrations(client);
  } finally {
    client.release();
    await pool.end();
  }
}
