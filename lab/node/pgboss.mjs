// pg-boss (PostgreSQL, Node.js).
//
// `bench` calls fetch() and complete() for 100 jobs at a time, without a pause while
// there are jobs: https://pgboss.io/api/jobs (fetch with batchSize, complete with many
// ids). `defaults` is work() as it comes: https://pgboss.io/api/workers ("The default
// options for work() is 1 job every 2 seconds"). `burst` is work() with what the same
// page offers for speed: batches of 100, no pause while they come back full, and a
// listener that wakes the worker.
import { PgBoss } from 'pg-boss';
import pg from 'pg';
import { pause, run, version } from './protocol.mjs';

const queue = 'race';
const batchSize = 100;

// The fetching loops of one process with `bench`. Measured with two processes on two
// cores, 1, 2 and 4 loops lay within each other's spread (8,000 to 12,400 jobs/s).
const loops = 2;

// How long a loop of `bench` waits after an empty fetch, in milliseconds. The library
// itself polls every 500 ms at most; this is in its favour.
const idle = 20;

await run({
  name: 'pg-boss',
  version: version('pg-boss'),
  settings: {
    bench: `fetch() and complete() in batches of ${batchSize}, ${loops} loops per process`,
    burst: `work() with batchSize ${batchSize}, burstWhenBatchFull, and notify with useListenNotify`,
    defaults: 'work() with the library defaults: one job every two seconds',
  },

  async open(connectionString, setting, role) {
    const count = new pg.Pool({ connectionString, max: 1 });
    let boss;
    const start = async () => {
      boss = new PgBoss({ connectionString, useListenNotify: setting === 'burst' });
      boss.on('error', err => console.error('pg-boss:', err));
      await boss.start();
    };
    if (role === 'produce' || role === 'work') await start();
    return {
      async setup() {
        await count.query('drop schema if exists pgboss cascade');
        await start();
        await boss.createQueue(queue, { notify: setting === 'burst' });
      },
      bulk: payloads => boss.insert(queue, payloads.map(data => ({ data }))),
      add: data => boss.send(queue, data),
      connect: () => Promise.all(Array.from({ length: 10 }, () => boss.getDb().executeSql('select 1'))),
      async work(handler) {
        if (setting === 'bench') return batches(boss, handler);
        const options = setting === 'burst' ? { batchSize, burstWhenBatchFull: true } : {};
        await boss.work(queue, options, jobs => Promise.all(jobs.map(job => handler(job.data))));
        return () => boss.offWork(queue, { wait: true });
      },
      async remaining() {
        // pg-boss keeps completed jobs, for seven days by default.
        const { rows } = await count.query("select count(*)::int as n from pgboss.job where name = $1 and state <> 'completed'", [queue]);
        return rows[0].n;
      },
      async close() {
        await boss?.stop({ graceful: true });
        await count.end();
      },
    };
  },
});

// batches works off the queue with loops of fetch() and complete().
async function batches(boss, handler) {
  let stopped = false;
  const loop = async () => {
    while (!stopped) {
      const jobs = await boss.fetch(queue, { batchSize });
      if (jobs.length === 0) {
        await pause(idle);
        continue;
      }
      await Promise.all(jobs.map(job => handler(job.data)));
      await boss.complete(queue, jobs.map(job => job.id));
    }
  };
  const all = Promise.all(Array.from({ length: loops }, loop));
  all.catch(err => {
    console.error('pg-boss:', err);
    process.exit(1);
  });
  return async () => {
    stopped = true;
    await all;
  };
}
