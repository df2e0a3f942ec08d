// What BullMQ's two back ends share: they are one library with one interface.
import { Queue, Worker } from 'bullmq';

export const queueName = 'race';

// The states of a job that is not completed. "failed" counts: such a job was not done.
const open = ['wait', 'active', 'delayed', 'prioritized', 'paused', 'waiting-children', 'failed'];

// Enough calls at once to make a pool of any of the settings open all its connections.
const connections = 32;

/** A session on the connection; the back end is undefined for Redis. */
export function session({ connection, worker, job, backend }) {
  const queue = new Queue(queueName, { connection, defaultJobOptions: job }, backend);
  queue.on('error', err => console.error('bullmq:', err));
  return {
    queue,
    bulk: payloads => queue.addBulk(payloads.map(data => ({ name: 'race', data }))),
    add: data => queue.add('race', data),
    connect: () => Promise.all(Array.from({ length: connections }, () => queue.getJobCounts('wait'))),
    async work(handler) {
      const running = new Worker(queueName, async ({ data }) => handler(data), { connection, ...worker }, backend);
      running.on('error', err => console.error('bullmq:', err));
      await running.waitUntilReady();
      return () => running.close();
    },
    async remaining() {
      const counts = await queue.getJobCounts(...open);
      return Object.values(counts).reduce((sum, n) => sum + n, 0);
    },
    close: () => queue.close(),
  };
}
