/** Connections that were accepted elsewhere: the listener serves them as its own. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { suite } from 'node:test';
import type { TestContext } from 'node:test';
import { isFastPath, test } from '../../test/support/both-paths.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { limits } from '../config/limits.ts';
import { openListener } from './http.ts';

const request = 'POST /webhook/d/s/t HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}';

async function open(t: TestContext) {
  const listener = await openListener({
    host: '127.0.0.1',
    port: null,
    bodyBytesMax: 1_000,
    fastPath: isFastPath(),
    limits: { ...limits, headersTimeoutMs: 200, drainIdleMs: 20 },
    observe: () => {},
    now: Date.now,
    ingest: {
      submit: async (arrival) => {
        await arrival.body();
        return { kind: 'committed', rows: 1 };
      },
    },
  });
  onEnd(t, 'listener', () => listener.close());
  const server = createServer((socket) => listener.take(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onEnd(t, 'server', () => void server.close());
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  onEnd(t, 'client', () => void client.destroy());
  return { client, listener };
}

suite('the listener serves connections accepted in another process as its own', () => {
  test('a connection accepted in another process and handed over is served, also half-closed', async (t) => {
    const { client } = await open(t);
    client.end(request);
    assert.match(await text(client), /^HTTP\/1\.1 200 /);
  });

  test('a connection accepted in another process and handed over has to send its headers in time', async (t) => {
    const { client } = await open(t);
    client.write('POST /webhook/d/s/t HTTP/1.1\r\nHost: h\r\n');
    assert.match(await text(client), /^HTTP\/1\.1 408 /);
  });

  test('a connection accepted in another process and handed over is closed when idle while the listener drains', async (t) => {
    const { client, listener } = await open(t);
    client.write(request);
    const [head] = (await once(client, 'data')) as [Buffer];
    assert.match(head.toString(), /^HTTP\/1\.1 200 /);
    assert.equal(listener.load.connections, 1);
    const ended = once(client, 'end');
    await listener.close();
    await ended;
    assert.equal(listener.load.connections, 0);
  });
});
