/** What a stop does to requests in flight. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { test } from '../../test/support/both-paths.ts';
import type { TestContext } from '../../test/support/both-paths.ts';
import { RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';

/** Sends a request, posts the status that it reads, sends another one when it is told to, says so in `shared`, and posts what it then reads. */
const client = `
  const { parentPort, workerData: { port, shared } } = require('node:worker_threads');
  const socket = require('node:net').connect(port, '127.0.0.1');
  const request = 'POST /webhook/dev/public/t HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 2\\r\\n\\r\\n{}';
  socket.on('error', (error) => parentPort.postMessage(error.code));
  socket.on('data', (data) => parentPort.postMessage(String(data).slice(9, 12) + (/connection: close/i.test(data) ? ' and closed' : '')));
  socket.write(request);
  parentPort.on('message', () => socket.write(request, () => { Atomics.store(shared, 0, 1); Atomics.notify(shared, 0); }));
`;

interface Sender {
  /** What it reads next. */
  readonly read: () => Promise<string>;
  /** Has it send once more; resolves, by standing still, when the kernel has it. */
  readonly again: () => void;
}

async function sender(t: TestContext, port: number): Promise<Sender> {
  const shared = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(client, { eval: true, workerData: { port, shared } });
  t.after(() => worker.terminate());
  const read = async () => ((await once(worker, 'message')) as [string])[0];
  const first = read();
  assert.equal(await first, '200');
  return {
    read,
    again: () => {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- of windows; this is a thread
      worker.postMessage('again');
      Atomics.wait(shared, 0, 0, 20_000);
    },
  };
}

const drainIdleMs = 200;

test('a stopping listener answers a request that arrived before its timers could run', async (t) => {
  const { listener, port } = await startListener({ limits: { drainIdleMs } });
  const { read, again } = await sender(t, port);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const closed = listener.close();
  await endOfTurns(10);
  const answer = read();
  again();
  // The time for which idle connections are kept is over before anybody has looked at what came.
  t.mock.timers.tick(drainIdleMs);
  assert.equal(await answer, '200 and closed');
  t.mock.timers.tick(drainIdleMs);
  await closed;
});

test('a stopping listener keeps idle connections as long as requests arrive on others', async (t) => {
  const { listener, port } = await startListener({ limits: { drainIdleMs } });
  const senders = [await sender(t, port), await sender(t, port), await sender(t, port)];
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const closed = listener.close();
  await endOfTurns(10);
  for (const { read, again } of senders.slice(0, 2)) {
    t.mock.timers.tick(drainIdleMs * 0.75);
    await endOfTurns(10);
    const answer = read();
    again();
    assert.equal(await answer, '200 and closed');
  }
  // The third one stays idle. Each round in which something came is followed by another one.
  for (let round = 0; round < 3; round++) {
    t.mock.timers.tick(drainIdleMs);
    await endOfTurns(10);
  }
  await closed;
});

test('a stopping listener skips what is left of a refused body for no longer than its bound, however busy it is', async (t) => {
  const lingerMs = 200;
  const { listener, port } = await startListener({
    limits: { drainIdleMs: 1, closingTurnsMax: 1, lingerMs },
  });
  const client = await RawClient.connect(port);
  t.after(() => client.destroy());
  client.send('POST /webhook/dev/public/none HTTP/1.1\r\nHost: h\r\nContent-Length: 600000\r\n\r\n');
  assert.equal((await client.answer())?.status, 404);
  const closed = listener.close();
  let stalls = 0;
  const busy = setInterval(() => {
    stalls += 1;
    for (const until = performance.now() + lingerMs; performance.now() < until;);
  }, 1);
  t.after(() => clearInterval(busy));
  await closed;
  clearInterval(busy);
  // The bound, and a look after it; before that, what is idle is given time to send.
  assert.ok(stalls <= 5, `${stalls} times ${lingerMs} ms`);
});

async function endOfTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
}
