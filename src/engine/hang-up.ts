/** How connections of node-postgres to the engine end, whatever state the engine is in. */
import type { Client, ClientBase } from 'pg';
import { within } from '../kit/within.ts';
import { limits } from '../tables/limits.ts';

/** Ends the connection, and past a short while its socket: a vanished peer never answers a farewell. */
export async function hangUp(client: Client): Promise<void> {
  client.on('error', () => undefined);
  const ended = client.end().catch(() => undefined);
  await within(limits.engineFarewellMs, ended, undefined);
  cutOff(client);
}

/** Ends the socket at once, without the protocol's goodbye, which a hung engine would never read. */
export function cutOff(client: ClientBase): void {
  // node-postgres has no public way to its socket.
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
