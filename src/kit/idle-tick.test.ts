import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { nobodyWaits } from './event-loop.ts';

/** Connects, sends a byte, says so in `shared`, and posts what it then reads: a text, or the code of an error. */
const client = `
  const { parentPort, workerData: { port, shared } } = require('node:worker_threads');
  const socket = require('node:net').connect(port, '127.0.0.1');
  socket.on('error', (error) => parentPort.postMessage(error.code));
  socket.on('data', (data) => { parentPort.postMessage(String(data)); socket.destroy(); });
  socket.write('?', () => { Atomics.store(shared, 0, 1); Atomics.notify(shared, 0); });
`;

/** What a client reads whose connection nobody had accepted yet when `close` was called. */
async function readBy(close: (server: ReturnType<typeof createServer>) => Promise<void>): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => void socket.end('served'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const shared = new Int32Array(new SharedArrayBuffer(4));
  const { port } = server.address() as AddressInfo;
  const worker = new Worker(client, { eval: true, workerData: { port, shared } });
  const read = once(worker, 'message');
  await once(worker, 'online');
  // This thread stands still, so that the connection waits in the kernel.
  Atomics.wait(shared, 0, 0, 20_000);
  await close(server);
  const [text] = (await read) as [string];
  await worker.terminate();
  return text;
}

test('a connection that waits to be accepted is accepted before its server closes', async () => {
  const closed = await readBy(async (server) => {
    await nobodyWaits(server, 64);
    server.close();
  });
  assert.equal(closed, 'served');
});

test('a server closed without waiting for an idle tick resets the pending connection', async () => {
  const closed = await readBy((server) => Promise.resolve(void server.close()));
  assert.equal(closed, 'ECONNRESET');
});
