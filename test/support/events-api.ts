/** events-api, the gateway on which ours is modelled, in front of a database: the program EVENTS_API_BINARY, on loopback. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { onEnd } from './cleanup.ts';
import { freePort } from './tls-server.ts';
import { until } from './until.ts';

/** Returns its URL once it answers. */
export async function startEventsApi(t: TestContext, binary: string, dsn: string): Promise<string> {
  const port = await freePort();
  const child = spawn(binary, [], {
    env: { EVENTS_API_RW_DSN: dsn, EVENTS_API_HOST: '127.0.0.1', EVENTS_API_PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4_000)));
  const ended = once(child, 'exit');
  onEnd(t, 'events-api', async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const url = `http://127.0.0.1:${port}`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`events-api has ended: ${said}`);
    return fetch(`${url}/v1/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  });
  return url;
}
