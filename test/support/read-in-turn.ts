/** How much a process reads from the engine before anything else of it has its turn. */
import type { ClientBase, Connection } from 'pg';

/** The bytes that `client` read within one turn of the event loop while `run` was under way, at most. */
export async function mostReadInOneTurn(client: ClientBase, run: () => Promise<unknown>): Promise<number> {
  const { connection } = client as unknown as { readonly connection: Connection };
  let [most, bytes] = [0, 0];
  const count = (chunk: Buffer) => {
    if (bytes === 0) setImmediate(() => (bytes = 0));
    bytes += chunk.length;
    most = Math.max(most, bytes);
  };
  connection.stream.on('data', count);
  await run();
  connection.stream.off('data', count);
  return most;
}
