/**
 * Any PostgreSQL (14 to 18) by connection string. Takes the string, gives an Engine at once, whether the server
 * is there or not; refuses with EngineError a string that can never work. Touches nothing on the server: it
 * holds one idle connection to know whether the server is there.
 */
import type { Observe } from '../observations.ts';
import { parseDsn } from './dsn.ts';
import type { Engine } from './engine.ts';
import { EngineWatch } from './engine-watch.ts';

export interface PostgresOptions {
  readonly databaseUrl: string;
  readonly observe: Observe;
  readonly random?: () => number;
  /** Oldest `server_version_num` that is served; default 140000. */
  readonly serverVersionMin?: number;
}

/** Resolves after the first attempt to connect, successful or not. */
export async function openPostgresEngine({
  databaseUrl,
  observe,
  random,
  serverVersionMin,
}: PostgresOptions): Promise<Engine> {
  const dsn = parseDsn(databaseUrl);
  const clientConfig: Engine['clientConfig'] = (database) => ({
    application_name: 'headgate',
    keepAlive: true,
    ...dsn.config,
    database,
  });
  observe({ kind: 'engine.starting', engine: 'postgres' });
  const watch = new EngineWatch({
    engine: 'postgres',
    clientConfig: () => clientConfig(dsn.database),
    observe,
    secrets: dsn.secrets,
    ...(random === undefined ? {} : { random }),
    ...(serverVersionMin === undefined ? {} : { serverVersionMin }),
  });
  await watch.settled;
  return {
    kind: 'postgres',
    defaultDatabase: dsn.database,
    clientConfig,
    endpoint: () => dsn.endpoint,
    get serverVersion() {
      return watch.serverVersion;
    },
    get unavailable() {
      return watch.unavailable;
    },
    close: async () => {
      await watch.close();
      observe({ kind: 'engine.stopped', engine: 'postgres' });
    },
  };
}
