/** `HEADGATE_LISTEN_ENABLED=false`: the listener is not merely unannounced, nothing listens. */
import assert from 'node:assert/strict';
import { createServer, connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { readFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { asked } from '../support/asked.ts';
import { startHeadgate } from '../support/headgate.ts';

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** What connecting to it ends in: `open`, or the error's code. */
function knock(port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
      .once('connect', () => {
        socket.destroy();
        resolve('open');
      })
      .once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
}

suite('the webhook listener can be switched off', () => {
  test('HEADGATE_LISTEN_ENABLED=false closes the webhook port only, and SIGTERM still stops cleanly', async (t) => {
    const port = await freePort();
    const headgate = await startHeadgate(t, {
      args: [`--listen-port=${port}`],
      env: { HEADGATE_LISTEN_ENABLED: 'false' },
    });
    assert.equal(await knock(port), 'ECONNREFUSED');
    const ports = JSON.parse(await readFile(join(headgate.dataDir, 'ports.json'), 'utf8')) as object;
    assert.equal('listen' in ports && ports.listen, null);
    assert.match(headgate.stdout, /webhooks {2}off/);
    assert.doesNotMatch(headgate.stdout, /curl/);
    assert.equal((await asked(`${headgate.adminUrl}/readyz`)).status, 200);
    assert.equal((await asked(`${headgate.adminUrl}/metrics`)).status, 200);
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE later (data JSONB) WITH (connector = 'webhook')`);
    await client.end();
    assert.deepEqual(await headgate.signal('SIGTERM'), { code: 0, signal: null });
  });
});
