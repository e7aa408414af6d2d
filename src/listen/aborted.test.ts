import assert from 'node:assert/strict';
import { test } from '../../test/support/both-paths.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { until } from '../../test/support/until.ts';
import { deferred } from '../kit/promises.ts';

const path = '/webhook/dev/public/t';

test('requests whose senders disconnect during the table lookup are ended, with whole and partial bodies', async (t) => {
  const found = deferred<void>();
  let asked = 0;
  const server = await startListener({
    found: () => {
      asked += 1;
      return found.promise;
    },
  });
  t.after(() => server.close());
  const requests = [post(path, '{"n":1}'), post(path, 'x'.repeat(1000)).slice(0, -500)];
  const senders = await Promise.all(requests.map(() => RawClient.connect(server.port)));
  for (const [i, sender] of senders.entries()) sender.send(requests[i] ?? '');
  while (asked < senders.length) await new Promise(setImmediate);
  for (const sender of senders) sender.reset();
  while (server.listener.load.connections > 0) await new Promise(setImmediate);
  found.resolve();
  const answered = () => server.observations.filter((it) => it.kind === 'request.answered');
  while (answered().length < senders.length) await new Promise(setImmediate);
  assert.deepEqual(
    answered().map((it) => it.kind === 'request.answered' && it.code),
    ['request_aborted', 'request_aborted'],
  );
  assert.equal(server.listener.load.bytesInFlight, 0);
  assert.deepEqual(server.bodies, []);
});

test('a sender that resets its connection after an early answer is not counted any more', async (t) => {
  // A connection that is closed after its answer would be kept for so long.
  const server = await startListener({ limits: { lingerMs: 120_000 } });
  t.after(() => server.close());
  const head = (table: string, length: string) =>
    `POST /webhook/dev/public/${table} HTTP/1.1\r\nHost: h\r\n${length}\r\n\r\n`;
  const large = `${head('none', 'Content-Length: 100000')}${'x'.repeat(100_000)}`;
  const half = 'x'.repeat(150_000);
  const cases = {
    'a small body, of which nothing has come': [head('none', 'Content-Length: 60000'), ''],
    'half of a small body': [head('none', 'Content-Length: 60000'), 'x'.repeat(30_000)],
    'half of a large body': [head('none', 'Content-Length: 300000'), half],
    'half of a chunk': [head('none', 'Transfer-Encoding: chunked'), `ffff\r\n${'x'.repeat(30_000)}`],
    'a large body, and half of the next one': [large, head('t', 'Content-Length: 300000') + half],
    'a large body, and many small ones': [large, `${head('t', 'Content-Length: 1')}1`.repeat(500)],
    'a large body, and a next one that expects something': [
      large,
      head('t', 'Expect: else\r\nContent-Length: 300000') + half,
    ],
  };
  for (const [name, [first = '', then = '']] of Object.entries(cases)) {
    const sender = await RawClient.connect(server.port);
    sender.send(first);
    assert.equal((await sender.answer())?.status, 404, name);
    sender.send(then);
    // The listener reads what it can.
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    sender.reset();
    await until(() => server.listener.load.connections === 0, 10_000);
  }
});
