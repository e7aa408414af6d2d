/**
 * The embedded engine that another process runs. Takes a data directory, returns its socket if a server listens on it;
 * refuses with EngineError a folder that is not a data directory. Touches nothing.
 */
import { realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { dataDirAt, inspectDataDir } from './data-dir.ts';
import { EngineError } from './engine.ts';
import type { Engine } from './engine.ts';
import { listens } from './orphaned-server.ts';
import { openShortPath } from './socket-path.ts';

/** null: no server is running. */
export async function joinEmbeddedEngine(
  dataDir: string,
): Promise<Pick<Engine, 'clientConfig' | 'close'> | null> {
  const given = resolve(dataDir);
  if ((await inspectDataDir(dataDirAt(given))) === 'new') {
    throw new EngineError(
      `there is no Headgate database in ${given}: one on another server is named with --database-url`,
    );
  }
  const short = await openShortPath(await realpath(given));
  const host = join(short.path, 'pg', 'run');
  if (await listens(join(host, '.s.PGSQL.5432'))) {
    return {
      clientConfig: (database) => ({ host, port: 5432, user: 'root', database, ssl: false }),
      close: () => short.close(),
    };
  }
  await short.close();
  return null;
}
