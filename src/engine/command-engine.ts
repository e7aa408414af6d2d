/**
 * The engine of a command that works on a database and exits: the server of the settings, the embedded one if a Headgate already
 * runs it, or one started for the command. Takes Settings; throws EngineError.
 */
import { realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { openEmbeddedEngine } from './embedded.ts';
import { EngineError } from './engine.ts';
import type { Engine } from './engine.ts';
import { openPostgresEngine } from './postgres.ts';
import type { Settings } from '../config/settings.ts';
import { dataDirAt, inspectDataDir } from './data-dir.ts';
import { listens } from './orphaned-server.ts';
import { openShortPath } from './socket-path.ts';

export async function openCommandEngine(
  settings: Settings,
): Promise<Pick<Engine, 'clientConfig' | 'close'> & Partial<Engine>> {
  const observe = () => {};
  const { databaseUrl, dataDir, logicalReplication } = settings;
  if (databaseUrl !== null) return openPostgresEngine({ databaseUrl, observe });
  return (
    (await joinEmbeddedEngine(dataDir)) ??
    (await openEmbeddedEngine({ dataDir, logicalReplication, observe }))
  );
}

/** null: no server is running. */
async function joinEmbeddedEngine(dataDir: string): Promise<Pick<Engine, 'clientConfig' | 'close'> | null> {
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
