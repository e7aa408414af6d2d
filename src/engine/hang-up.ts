/** How connections of node-postgres to the engine end, whatever state the engine is in. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, ClientBase } from 'pg';
import { limits } from '../tables/limits.ts';

/** Ends the connection, and past a short while its socket: a vanished peer never answers a farewell. */
export async function hangUp(client: Client): Promise<void> {
  client.on('error', () => undefined);
  const ended = client.end().catch(() => undefined);
  const waited = new AbortController();
  const late = sleep(limits.engineFarewellMs, undefined, { signal: waited.signal }).catch(() => undefined);
  await Promise.race([ended, late]);
  waited.abort();
  cutOff(client);
}

/** Ends the socket at once, without the protocol's goodbye, which a hung engine would never read. */
export function cutOff(client: ClientBase): void {
  // node-postgres has no public way to its socket.
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
