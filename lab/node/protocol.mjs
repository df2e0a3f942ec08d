// The protocol that the races' driver speaks with a contender, once for all contenders
// of this folder. It says and does the same as the Go package lab/contender.
//
// A contender hands run() an object with
//   name, version   strings
//   settings        {name: what it means, in words}
//   open(url, setting, role) -> a session; role is "setup", "produce", "work" or "count"
// A session has
//   setup()                      makes the schema from nothing
//   bulk(payloads)               adds many jobs in one call
//   add(payload)                 adds one job; returns after it is committed
//   connect()                    opens the connections that add() needs, so that no time
//                                measured holds them
//   work(handler, setting)       starts a worker; returns once it looks for jobs, with a
//                                function that stops it gracefully. handler(payload) is
//                                called when a job starts; if it returns a promise, the
//                                job lasts until that is settled
//   remaining()                  counts the jobs that are not completed, in the database
//   close()
import { writeFileSync, readFileSync } from 'node:fs';

// How many jobs `enqueue` hands over in one call, and how many of these calls run at
// once, unless the contender says otherwise. Chosen: larger calls were no faster.
const bulkSize = 1000;
const bulkCalls = 2;

// The most enqueue calls that `produce` lets run at once.
const producing = 64;

// How often a worker says how far it is, in milliseconds; as often as those in Go.
const reportEvery = 20;

/** Runs the verb of the command line against the contender, and ends the process. */
export async function run(contender) {
  const [verb, ...args] = process.argv.slice(2);
  try {
    const call = verbs[verb];
    if (!call) {
      throw new Error(`unknown verb ${JSON.stringify(verb)}, want one of ${Object.keys(verbs).join(', ')}`);
    }
    await call(contender, ...args);
    process.exit(0);
  } catch (err) {
    console.error(`${contender.name} ${verb}:`, err);
    process.exit(1);
  }
}

/** The version of an installed package. */
export function version(name) {
  return JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url), 'utf8')).version;
}

/** Resolves after the time, in milliseconds. */
export function pause(ms) {
  return new Promise(resolve => setTimeout(resolve, ms));
}

/**
 * Runs next() n times at once, again and again, until it returns false. It fails with the
 * first failure.
 */
export async function atOnce(n, next) {
  const loop = async () => {
    while ((await next()) !== false);
  };
  await Promise.all(Array.from({ length: n }, loop));
}

const verbs = {
  async describe({ name, version, settings }) {
    say({ name, version, settings });
  },

  async setup(contender) {
    await using(contender, 'setup', session => session.setup());
  },

  async enqueue(contender, count) {
    const jobs = positive('the number of jobs', count);
    await using(contender, 'produce', async session => {
      const size = contender.bulkSize ?? bulkSize;
      let next = 1;
      const start = performance.now();
      await atOnce(contender.bulkCalls ?? bulkCalls, async () => {
        if (next > jobs) return false;
        const batch = [];
        for (; batch.length < size && next <= jobs; next++) batch.push(payload(next));
        await session.bulk(batch);
      });
      say({ jobs, seconds: since(start) });
    });
  },

  async singles(contender, callers, seconds) {
    const n = positive('the number of callers', callers);
    const length = positive('the seconds', seconds) * 1000;
    await using(contender, 'produce', async session => {
      await session.connect();
      let jobs = 0;
      let seq = 0;
      const start = performance.now();
      await atOnce(n, async () => {
        if (performance.now() - start >= length) return false;
        await session.add(payload(++seq));
        jobs++;
      });
      say({ jobs, seconds: since(start) });
    });
  },

  async drain(contender) {
    await work(contender, () => {});
  },

  async work(contender, file) {
    const lines = new Lines(file);
    const whose = process.env.LAB_TENANT; // of whose jobs the starts are noted; none: all
    await work(contender, ({ seq, tenant }) => {
      if (!whose || tenant === whose) lines.add(seq);
    });
    lines.write();
  },

  async produce(contender, file, rate, seconds) {
    const perSecond = positive('the rate', rate);
    const length = positive('the seconds', seconds);
    const total = Math.round(perSecond * length);
    const lines = new Lines(file);
    await using(contender, 'produce', async session => {
      await session.connect();
      let started = 0;
      let running = 0;
      let failure;
      const start = performance.now();
      const one = async seq => {
        try {
          await session.add(payload(seq));
          lines.add(seq);
        } catch (err) {
          failure ??= err;
        } finally {
          running--;
        }
      };
      // What could not begin within the time is left.
      while (started < total && since(start) < length && !failure) {
        const due = Math.min(total, Math.floor(since(start) * perSecond) + 1);
        for (; started < due && running < producing; running++) one(++started);
        await pause(1);
      }
      while (running > 0) await pause(1);
      if (failure) throw failure;
      say({ jobs: started, seconds: since(start) });
    });
    lines.write();
  },

  async trickle(contender, file, everyMs, count) {
    const every = positive('the distance', everyMs);
    const total = positive('the number of jobs', count);
    const lines = new Lines(file);
    await using(contender, 'produce', async session => {
      await session.connect();
      const start = performance.now();
      for (let seq = 1; seq <= total; seq++) {
        await pause(Math.max(0, start + (seq - 1) * every - performance.now()));
        await session.add(payload(seq));
        lines.add(seq);
      }
      say({ jobs: total, seconds: since(start) });
    });
    lines.write();
  },

  async remaining(contender) {
    await using(contender, 'count', async session => say({ remaining: await session.remaining() }));
  },
};

// work runs a worker until the standard input closes.
async function work(contender, started) {
  const closed = new Promise(resolve => {
    process.stdin.on('end', resolve);
    process.stdin.on('close', resolve);
    process.stdin.on('error', resolve);
    process.stdin.resume();
  });
  const session = await contender.open(url(), setting(contender), 'work');
  let done = 0;
  let said = 0;
  const report = () => {
    if (done === said) return;
    said = done;
    say({ done, at: micros() });
  };
  const length = handlerLength();
  const stop = await session.work(
    length === 0
      ? job => {
          started(job);
          done++;
        }
      : async job => {
          started(job);
          await pause(length * (0.5 + Math.random()));
          done++;
        },
  );
  say({ ready: true });
  const timer = setInterval(report, reportEvery);
  await closed;
  await stop();
  clearInterval(timer);
  say({ done, at: micros() });
  await session.close();
}

// handlerLength is how long a handler takes on average, in milliseconds: LAB_HANDLER, as Go
// writes a duration. Each takes from half of it to one and a half, or slots would run in step.
function handlerLength() {
  const text = process.env.LAB_HANDLER || '0ms';
  const [, number, unit] = /^([\d.]+)(ms|s)$/.exec(text) ?? [];
  if (!unit) throw new Error(`LAB_HANDLER=${text}: want a number and ms or s`);
  return Number(number) * (unit === 's' ? 1000 : 1);
}

async function using(contender, role, f) {
  const session = await contender.open(url(), setting(contender), role);
  await f(session);
  await session.close();
}

function url() {
  if (!process.env.LAB_URL) throw new Error('LAB_URL is not set');
  return process.env.LAB_URL;
}

function setting(contender) {
  const name = process.env.LAB_SETTINGS ?? 'defaults';
  if (!(name in contender.settings)) {
    throw new Error(`LAB_SETTINGS=${name}: want one of ${Object.keys(contender.settings).join(', ')}`);
  }
  return name;
}

// What all payloads have in common; where jobs have a tenant, it is part of it.
const template = JSON.parse(process.env.LAB_PAYLOAD ?? JSON.stringify({ seq: 0, text: 'x'.repeat(85) }));

function payload(seq) {
  return { ...template, seq };
}

function positive(what, text) {
  const n = Number(text);
  if (!(n > 0)) throw new Error(`${what}: ${text} is not a number above 0`);
  return n;
}

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

function since(start) {
  return (performance.now() - start) / 1000;
}

// Lines gathers "seq unixMicros" lines and writes the file at the end, so that
// writing does not disturb what is measured.
class Lines {
  #file;
  #lines = [];

  constructor(file) {
    if (!file) throw new Error('the name of the file is missing');
    this.#file = file;
  }

  add(seq) {
    this.#lines.push(`${seq} ${micros()}\n`);
  }

  write() {
    writeFileSync(this.#file, this.#lines.join(''));
  }
}

// The wall clock at the zero of the steady clock, in microseconds. Date.now() counts in
// milliseconds only, so it is read at the moment when it changes.
const epoch = (() => {
  const from = Date.now();
  let now;
  while ((now = Date.now()) === from);
  return now * 1000 - performance.now() * 1000;
})();

// micros is the time of the wall clock in microseconds since 1970.
function micros() {
  return Math.round(epoch + performance.now() * 1000);
}
