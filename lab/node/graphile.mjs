// Graphile Worker (PostgreSQL, Node.js).
//
// `bench` is the configuration with which its documentation reached its highest figures:
// https://worker.graphile.org/docs/performance ("Quick stats": 24 jobs at once, 25
// connections, a local queue of 500, completions gathered with a delay of 0; "using a
// pool of 4 Graphile Worker instances"). `defaults` is what the library does by itself.
//
// A tenant is part of the payload and nothing else: the library has no turns between
// tenants. Jobs of a named queue run one after the other ("to enforce that the jobs run
// serially", TaskSpec.queueName), which is not what a heavy tenant wants, and a priority says
// which tenant always goes first.
import { Logger, makeWorkerUtils, run as runWorker, runMigrations } from 'graphile-worker';
import pg from 'pg';
import { run, version } from './protocol.mjs';

const presets = {
  bench: {
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
  defaults: {},
};

// Its logger writes a line per job to the console, which is what a test of speed must not
// measure; its own tests of speed switch that off too (NO_LOG_SUCCESS).
const quiet = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message);
});

await run({
  name: 'graphile-worker',
  version: version('graphile-worker'),
  settings: {
    bench: 'concurrentJobs 24, maxPoolSize 25, localQueue.size 500, completeJobBatchDelay 0, failJobBatchDelay 0 (the configuration of its performance page)',
    defaults: 'concurrentJobs 1, maxPoolSize 10, no local queue, no batching (the library defaults)',
  },

  async open(connectionString, setting, role) {
    const preset = { worker: { connectionString, logger: quiet, ...presets[setting] } };
    const count = new pg.Pool({ connectionString, max: 1 });
    const utils = role === 'produce' ? await makeWorkerUtils({ preset }) : undefined;
    return {
      async setup() {
        await count.query('drop schema if exists graphile_worker cascade');
        await runMigrations({ preset });
      },
      bulk: payloads => utils.addJobs(payloads.map(payload => ({ identifier: 'race', payload }))),
      add: payload => utils.addJob('race', payload),
      async work(handler) {
        const runner = await runWorker({ preset, noHandleSignals: true, taskList: { race: handler } });
        return () => runner.stop();
      },
      async remaining() {
        const { rows } = await count.query('select count(*)::int as n from graphile_worker._private_jobs');
        return rows[0].n;
      },
      connect: () => Promise.all(Array.from({ length: 25 }, () => utils.withPgClient(client => client.query('select 1')))),
      async close() {
        await utils?.release();
        await count.end();
      },
    };
  },
});
