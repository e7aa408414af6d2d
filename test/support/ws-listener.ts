/** A listener with a WebSocket door whose rooms come from the test, and clients of it; closed with the test. */
import type { TestContext } from 'node:test';
import { onEnd } from './cleanup.ts';
import { testStreams } from './streams.ts';
import type { TestStreams } from './streams.ts';
import type { TestListener, TestListenerOptions } from './test-listener.ts';
import { startListener } from './test-listener.ts';
import { WsClient } from './ws-client.ts';
import type { WsOptions } from './ws-client.ts';

export async function listen(
  t: TestContext,
  deps: Partial<TestStreams> = {},
  options: TestListenerOptions = {},
): Promise<TestListener> {
  const server = await startListener({
    streams: testStreams(deps),
    ...options,
    limits: { lingerMs: 500, drainMs: 2_000, ...options.limits },
  });
  onEnd(t, 'listener', () => server.close());
  return server;
}

/** A client that has sent its init frame. */
export async function open(t: TestContext, server: TestListener, table = 't', options: WsOptions = {}) {
  const client = await WsClient.open(`ws://127.0.0.1:${server.port}/ingest/dev/public/${table}`, options);
  onEnd(t, 'client', async () => void (await client.kill()));
  return client;
}
