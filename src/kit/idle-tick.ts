/**
 * Moments at which nothing waits in the kernel. Closing a server's socket resets the connections that the kernel has made and
 * nobody has accepted yet; closing a connection resets it if bytes have arrived that nobody has read. By then a proxy has
 * sent a request on it, and may not send it again.
 */
import type { Server } from 'node:net';

/**
 * Resolves right after a turn of the event loop in which `count` did not change, or after `turnsMax` turns. A process that
 * got no processor for a while runs its timers before it looks at what has arrived meanwhile; after this it has looked. The
 * caller must then close at once, before it waits for anything else.
 */
export async function quietTurn(count: () => number, turnsMax: number): Promise<void> {
  // The first one ends the turn that this was called in: how much that turn has looked at is not known.
  await endOfTurn();
  for (let turn = 0; turn < turnsMax; turn++) {
    const before = count();
    await endOfTurn();
    if (count() === before) break;
  }
}

/** A quiet turn of a server: no connection waits to be accepted. */
export async function nobodyWaits(server: Server, turnsMax: number): Promise<void> {
  let accepted = 0;
  const tell = () => (accepted += 1);
  server.on('connection', tell);
  await quietTurn(() => accepted, turnsMax);
  server.off('connection', tell);
}

const endOfTurn = () => new Promise<void>((resolve) => setImmediate(resolve));
