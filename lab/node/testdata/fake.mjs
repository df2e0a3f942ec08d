// A contender for the test of the protocol: its database is a file with a job a line.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { pause, run } from '../protocol.mjs';

await run({
  name: 'fake',
  version: '1.2.3',
  settings: { defaults: 'adds at once', slow: 'takes a second to add one', broken: 'fails to add one' },

  open(file, setting) {
    const jobs = () => readFileSync(file, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line));
    const doneFile = `${file}.done`;
    const bulk = payloads => appendFileSync(file, payloads.map(p => `${JSON.stringify(p)}\n`).join(''));
    return {
      setup() {
        writeFileSync(file, '');
        writeFileSync(doneFile, '0');
      },
      bulk,
      async add(payload) {
        if (setting === 'broken') throw new Error('no such table');
        if (setting === 'slow') await pause(1000);
        bulk([payload]);
      },
      connect() {},
      async work(handler) {
        let done = 0;
        let busy = Promise.resolve();
        const timer = setInterval(() => {
          const due = jobs().slice(done);
          done += due.length;
          busy = Promise.all([busy, ...due.map(handler)]);
        }, 5);
        return async () => {
          clearInterval(timer);
          await busy;
          writeFileSync(doneFile, String(done));
        };
      },
      remaining: () => (existsSync(doneFile) ? jobs().length - Number(readFileSync(doneFile, 'utf8')) : 0),
      close() {},
    };
  },
});
