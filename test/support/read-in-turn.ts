/** How much a process reads from the engine before anything else of it has its turn. */
import type { Readable } from 'node:stream';
import type { ClientBase, Connection } from 'pg';

export const streamOf = (client: ClientBase): Readable =>
  (client as unknown as { readonly connection: Connection }).connection.stream;

/** The bytes that were read of `stream` within one turn of the event loop while `run` was under way, at most. */
export async function mostReadInOneTurn(stream: Readable, run: () => Promise<unknown>): Promise<number> {
  let [most, bytes] = [0, 0];
  const count = (chunk: Buffer) => {
    if (bytes === 0) setImmediate(() => (bytes = 0));
    bytes += chunk.length;
    most = Math.max(most, bytes);
  };
  stream.on('data', count);
  await run();
  stream.off('data', count);
  return most;
}
