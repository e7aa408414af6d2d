/**
 * Any PostgreSQL (14 to 18) by connection string. Takes the string, returns an Engine at once, whether or not the server is
 * up; of several servers it uses one that accepts writes, and chooses again when that one is lost; refuses with EngineError a
 * string that can never work. Touches nothing on the server: it holds one idle connection to know whether the server is up.
 */
import type { Client } from 'pg';
import type { Observe } from '../observe/observations.ts';
import { parseDsn } from './dsn.ts';
import { EngineError } from './engine.ts';
import type { Engine } from './engine.ts';
import { EngineWatch } from './engine-watch.ts';
import { Servers } from './servers.ts';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';

class TooFewConnections extends EngineError {}

interface AllowedConnections {
  /** How many connections to this database the server allows, to all roles together. */
  readonly most: number;
  /** The bound of the role, or of the database, that is too low; null: none is. */
  readonly what: string | null;
  readonly name: string;
  readonly few: number;
}

/** No row behind a pooler, which has bounds of its own. */
const allowedSql = `
  select least(pg_catalog.current_setting('max_connections')::pg_catalog.int4, case when d.datconnlimit operator(pg_catalog.>=) 0 then d.datconnlimit end) as most,
    w.what, w.name, w.few
  from pg_catalog.pg_database d join pg_catalog.pg_roles r on r.rolname operator(pg_catalog.=) session_user
  left join lateral (
    values ('ROLE', r.rolname::pg_catalog.text, r.rolconnlimit), ('DATABASE', d.datname::pg_catalog.text, d.datconnlimit)
  ) as w (what, name, few) on not r.rolsuper and w.few operator(pg_catalog.>=) 0 and w.few operator(pg_catalog.<) $1
  where d.datname operator(pg_catalog.=) pg_catalog.current_database() and pg_catalog.pg_backend_pid() operator(pg_catalog.=) $2 limit 1`;

/** How many connections the server allows; 0: behind a pooler. Refuses fewer than `least` for Headgate's role. */
async function connectionsOf(client: Client, least: number): Promise<number> {
  const { processID } = client as unknown as { readonly processID: number | null };
  const { rows } = await client.query<AllowedConnections>(allowedSql, [least, processID ?? 0]);
  const { most = 0, what = null, name = '', few = 0 } = rows[0] ?? {};
  if (what === null) return most;
  throw new TooFewConnections(
    `${what.toLowerCase()} ${quote(name)} may have ${few} ${few === 1 ? 'connection' : 'connections'}, and Headgate needs ${least} at ` +
      `least: ALTER ${what} ${quote(name)} CONNECTION LIMIT 20`,
  );
}

interface PostgresOptions {
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
    connectionsMax = await connectionsOf(client, connectionsMin);
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
