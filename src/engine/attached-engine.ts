/**
 * An engine that another process of this Headgate supervises: the embedded one, seen from a listener process. Takes how
 * it is reached, returns an Engine at once; refuses nothing: while the engine cannot be reached, `unavailable` says so.
 * Starts and stops nothing; holds one idle connection to know whether the engine is up.
 */
import type { ClientConfig } from 'pg';
import type { Observe } from '../observe/observations.ts';
import type { Engine } from './engine.ts';
import { EngineWatch } from './engine-watch.ts';

/** Plain values, to be sent to another process. */
export interface EngineReach {
  readonly socketFolder: string;
  readonly port: number;
  readonly user: string;
  readonly defaultDatabase: string;
  /** Which database is watched: not one that its owner may want to drop. */
  readonly watchedDatabase: string;
}

/** For the embedded engine. */
export function reachOf(engine: Engine): EngineReach {
  const { host = '', port = 0, user = '' } = engine.clientConfig(engine.defaultDatabase);
  const { defaultDatabase } = engine;
  return { socketFolder: host, port, user, defaultDatabase, watchedDatabase: 'postgres' };
}

/** Resolves after the first attempt to connect, successful or not. */
export async function attachEngine(reach: EngineReach, observe: Observe): Promise<Engine> {
  const { socketFolder, port, user } = reach;
  const clientConfig = (database: string): ClientConfig => ({
    host: socketFolder,
    port,
    user,
    database,
    ssl: false,
    application_name: 'headgate',
  });
  const watch = new EngineWatch({
    engine: 'embedded',
    clientConfig: () => clientConfig(reach.watchedDatabase),
    observe,
  });
  await watch.settled;
  return {
    kind: 'embedded',
    defaultDatabase: reach.defaultDatabase,
    clientConfig,
    endpoint: () => ({ kind: 'unix', path: `${socketFolder}/.s.PGSQL.${port}` }),
    get serverVersion() {
      return watch.serverVersion;
    },
    get unavailable() {
      return watch.unavailable;
    },
    close: () => watch.close(),
  };
}
