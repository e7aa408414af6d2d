/**
 * Moments at which nothing waits in the kernel. A connection that the kernel has made, and that nobody has accepted yet, is
 * reset when its server's socket is closed; one on which bytes have come that nobody has read is reset when it is closed. A
 * proxy has sent a request on it by then, and may not send it again.
 */
import type { Server } from 'node:net';

/**
 * Resolves right behind a turn of the event loop in which `count` stayed as it was, or after `turnsMax` turns. A process that
 * got no processor for a while runs its timers before it looks at what came meanwhile; behind this it has looked. What closes
 * something then has to run at once, before anything else is waited for.
 */
export async function quietTurn(count: () => number, turnsMax: number): Promise<void> {
  // The first one ends the turn that this was called in, of which it is not known how much it has looked at.
  await endOfTurn();
  for (let turn = 0; turn < turnsMax; turn++) {
    const before = count();
    await endOfTurn();
    if (count() === before) break;
  }
}

/** A quiet turn of a server: nobody waits to be accepted. */
export async function nobodyWaits(server: Server, turnsMax: number): Promise<void> {
  let accepted = 0;
  const tell = () => (accepted += 1);
  server.on('connection', tell);
  await quietTurn(() => accepted, turnsMax);
  server.off('connection', tell);
}

const endOfTurn = () => new Promise<void>((resolve) => setImmediate(resolve));
