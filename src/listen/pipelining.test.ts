import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { test } from '../../test/support/both-paths.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { deferred } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';

test('pipelined requests answered at once count against the bound on pipelined requests', async (t) => {
  const server = await startListener({ limits: { lingerMs: 200 } });
  t.after(() => server.close());
  const client = await RawClient.connect(server.port);
  client.send(post('/webhook/nothing', '').repeat(500));
  const statuses: (number | undefined)[] = [];
  for (let answer = await client.answer(); answer !== null; answer = await client.answer())
    statuses.push(answer.status);
  assert.deepEqual(statuses, [...Array<number>(limits.pipelinedRequestsMax).fill(404), 503]);
  await client.closed;
});

const path = '/webhook/dev/public/t';

test('pipelined requests up to the bound are answered, the next gets 503, and the rest is not read', async (t) => {
  const go = deferred<void>();
  const server = await startListener({
    limits: { lingerMs: 200 },
    commit: () => go.promise.then(() => ({ kind: 'committed', rows: 1 })),
  });
  t.after(() => server.close());
  const client = await RawClient.connect(server.port);
  client.send(post(path, '{}').repeat(500));
  await server.observed((o) => o.kind === 'request.answered' && o.code === 'overloaded');
  go.resolve();
  const statuses: (number | undefined)[] = [];
  for (let answer = await client.answer(); answer !== null; answer = await client.answer())
    statuses.push(answer.status);
  const many = limits.pipelinedRequestsMax;
  assert.deepEqual(statuses, [...Array<number>(many).fill(200), 503]);
  await client.closed;
  // Its parser serves others again.
  const next = await RawClient.connect(server.port);
  next.send(post(path, '1') + post(path, '2'));
  assert.equal((await next.answer())?.status, 200);
  assert.equal((await next.answer())?.status, 200);
  next.destroy();
});

test('of what follows the last answer of a connection no requests are made', async (t) => {
  // Kept until the connection ends, they took eighteen times the memory that their sender had sent.
  const server = await startListener({ limits: { lingerMs: 200 } });
  t.after(() => server.close());
  const endings = {
    'no host': 'GET / HTTP/1.1\r\n\r\n',
    'another expectation': 'POST / HTTP/1.1\r\nHost: h\r\nExpect: else\r\nContent-Length: 0\r\n\r\n',
  };
  for (const [name, last] of Object.entries(endings)) {
    for (const next of ['', '\r\nContent-Length: 1', '\r\nContent-Length: 1\r\nExpect: else']) {
      const client = await RawClient.connect(server.port);
      const { localPort } = client.socket;
      let made = 0;
      const count = (message: unknown) => {
        const { socket } = message as { readonly socket: Socket };
        if (socket.remotePort === localPort) made += 1;
      };
      subscribe('http.server.request.start', count);
      client.send(last + `POST / HTTP/1.1\r\nHost: h${next}\r\n\r\n${next === '' ? '' : 'x'}`.repeat(500));
      assert.match(String((await client.answer())?.status), /^4/, name);
      assert.equal(await client.answer(), null, name);
      await client.closed;
      unsubscribe('http.server.request.start', count);
      assert.ok(made <= 2, `${name}: ${made} after one${next}`);
    }
  }
});
