/**
 * The databases of Headgate's own engine behind the events gateway: as whom it works in them, and through which lanes. Takes the engine; opens connections only
 * when asked.
 *
 * Normally, on the embedded engine, the gateway has a role, and lanes of that role (event-lanes.ts). An external engine lets in nobody but the role of its DSN:
 * there the gateway is that role, and its events share the lanes and connections of webhooks.
 */
import { withoutCopy } from '../ddl/no-copy.ts';
import type { RewriteSql } from '../ddl/rewrite.ts';
import type { CommitEngine } from '../commit/commit-pools.ts';
import type { Engine } from '../engine/engine.ts';
import type { GatewayRole } from '../engine/gateway-role.ts';
import type { OwnerLogins } from '../engine/owner-logins.ts';
import { Refused } from '../errors/refusals.ts';
import type { SqlError } from '../errors/refusals.ts';
import type { Closer } from '../kit/closer.ts';
import type { StageContext } from '../observe/context.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { translate } from './engines.ts';
import { openEventParts } from './event-lanes.ts';
import type { EventParts } from './event-lanes.ts';
import type { Databases } from './external-databases.ts';
import { PostgresEvents } from './events.ts';
import { postgresDialect } from './sql-dialect.ts';
import type { SqlSurroundings } from './sql-sessions.ts';

interface OwnEngine {
  readonly engine: Engine;
  readonly logins: OwnerLogins;
  /** null: on an external engine. */
  readonly role: GatewayRole | null;
  /** What stores webhooks. */
  readonly webhooks: Pick<EventParts, 'pools' | 'lanes'> & { readonly engine: CommitEngine };
  /** That of the SQL door. */
  readonly rewrite: RewriteSql;
}

/** Closed by `closer`. */
export function ownDatabases(
  { engine, logins, role, webhooks, rewrite }: OwnEngine,
  context: StageContext,
  closer: Closer,
  tracer: Pick<Tracer, 'commit'> | null,
): Databases {
  const sql = ownSqlRooms(engine, rewrite, role, logins);
  if (role !== null) {
    const parts = openEventParts(asRole(engine, role, logins), context, closer, tracer);
    return { sql, events: new PostgresEvents(parts, closer), depths: () => parts.lanes.depths() };
  }
  const parts = {
    ...webhooks,
    engine: { ...webhooks.engine, logsIn: null },
    ready: refuseImpossible,
    clock: context.clock,
  };
  return { sql, events: new PostgresEvents(parts, closer), depths: () => [] };
}

/** Headgate's own engine, with the gateway's role. */
function asRole(
  engine: Engine,
  role: GatewayRole,
  logins: OwnerLogins,
): Pick<EventParts, 'engine' | 'ready'> {
  return {
    engine: {
      clientConfig: (database) => role.clientConfig(database),
      doubt: () => engine.doubt?.(),
      logins,
      logsIn: true,
    },
    ready: (database) => role.ready(database),
  };
}

/** All databases of Headgate's own engine; `rewrite` is that of the SQL door. `role` null: as Headgate's own role. */
function ownSqlRooms(
  engine: Engine,
  rewrite: RewriteSql,
  role: GatewayRole | null,
  logins: OwnerLogins,
): SqlSurroundings {
  const dialect = postgresDialect(withoutCopy(rewrite));
  return {
    clientConfig: (database) => (role ?? engine).clientConfig(database),
    ready: (database) => role?.ready(database) ?? refuseImpossible(database),
    dialect: () => dialect,
    logins,
    translate:
      role === null
        ? translate
        : (error, original, rewritten) => withRole(translate(error, original, rewritten), role.name),
  };
}

/** The engine itself reports whether the database exists. */
async function refuseImpossible(database: string): Promise<void> {
  // PostgreSQL's protocol ends a name with a zero byte.
  if (database.includes('\0')) throw new Refused('database_unknown');
}

/** Names the role in the hint of a permission error, for users who do not know which role SQL runs as. */
function withRole(error: SqlError, role: string): SqlError {
  if (error.sqlstate !== '42501' || error.hint !== undefined) return error;
  const hint = `The events gateway runs SQL as the role ${role}: use the SQL port, GRANT it the right, or set HEADGATE_EVENTS_ROLE.`;
  return { ...error, hint };
}
