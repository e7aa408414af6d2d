/**
 * Any PostgreSQL (14 to 18) by connection string. Takes the string, returns an Engine at once, whether or not the server is
 * up; of several servers it uses one that accepts writes, and chooses again when that one is lost; refuses with EngineError a
 * string that can never work. Touches nothing on the server: it holds one idle connection to know whether the server is up.
 */
import type { Client } from 'pg';
import type { Observe } from '../observe/observations.ts';
import { parseDsn } from './dsn.ts';
import type { Engine } from './engine.ts';
import { connectionsOf, refuseTooFew, TooFewConnections } from './connection-limit.ts';
import { EngineWatch } from './engine-watch.ts';
import { Servers } from './servers.ts';

export interface PostgresOptions {
  readonly databaseUrl: string;
  /** Its name in observations; default: postgres. */
  readonly name?: string;
  readonly observe: Observe;
  readonly random?: () => number;
  /** The oldest `server_version_num` that is served; default 140000. */
  readonly serverVersionMin?: number;
  /** How many connections its role must be allowed; default 0. */
  readonly connectionsMin?: number;
}

/** Resolves after the first attempt to connect, successful or not; rejects if its role is allowed too few connections. */
export async function openPostgresEngine({
  databaseUrl,
  name = 'postgres',
  observe,
  random,
  serverVersionMin,
  connectionsMin = 0,
}: PostgresOptions): Promise<Engine> {
  const dsn = parseDsn(databaseUrl);
  const servers = new Servers(dsn);
  let connectionsMax = 0;
  const greet = async (client: Client): Promise<void> => {
    await refuseTooFew(client, connectionsMin);
    connectionsMax = await connectionsOf(client);
  };
  observe({ kind: 'engine.starting', engine: name });
  const watch = new EngineWatch({
    engine: name,
    clientConfig: () => servers.clientConfig(dsn.database),
    observe,
    secrets: dsn.secrets,
    describe: (error) => servers.reasonOf(error),
    ...(servers.single ? {} : { prepare: (signal: AbortSignal) => servers.choose(signal) }),
    check: (client) => servers.check(client),
    ...(connectionsMin === 0 ? {} : { greet }),
    ...(random === undefined ? {} : { random }),
    ...(serverVersionMin === undefined ? {} : { serverVersionMin }),
  });
  const first = await watch.settled;
  // Once Headgate's own connections use up the limit, the next attempt would only report too many connections.
  if (first instanceof TooFewConnections) {
    await watch.close();
    throw first;
  }
  return {
    kind: 'postgres',
    defaultDatabase: dsn.database,
    clientConfig: (database) => servers.clientConfig(database),
    endpoint: () => servers.current.endpoint,
    doubt: () => watch.doubt(),
    get serverVersion() {
      return watch.serverVersion;
    },
    get connectionsMax() {
      return connectionsMax;
    },
    get unavailable() {
      return watch.unavailable;
    },
    get readOnly() {
      return watch.readOnly;
    },
    close: async () => {
      await watch.close();
      observe({ kind: 'engine.stopped', engine: name });
    },
  };
}
