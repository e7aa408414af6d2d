/**
 * A moment at which nobody waits to be accepted. A connection that the kernel has made, and that nobody has accepted yet, is
 * reset when its server's socket is closed; a proxy has sent a request on it by then, and may not send it again.
 */
import type { Server } from 'node:net';

/**
 * Resolves right behind a turn of the event loop that looked for connections and found none, or after `turnsMax` turns.
 * What closes the server then has to run at once, before anything else is waited for.
 */
export async function quietTurn(server: Server, turnsMax: number): Promise<void> {
  let accepted = 0;
  const count = () => (accepted += 1);
  server.on('connection', count);
  // The first one ends the turn that this was called in, of which it is not known how much it has looked at.
  await endOfTurn();
  for (let turn = 0; turn < turnsMax; turn++) {
    accepted = 0;
    await endOfTurn();
    if (accepted === 0) break;
  }
  server.off('connection', count);
}

const endOfTurn = () => new Promise<void>((resolve) => setImmediate(resolve));
