/**
 * What both forms of the events gateway share: the one inside `headgate start` (main.ts) and the separate program
 * (gateway-main.ts). Takes Settings, returns options for the gateway's door; throws EngineError for a DSN that can
 * never work.
 */
import type { DatabaseError } from 'pg';
import { createTypeNameRewriter } from '../ddl/type-names.ts';
import { withoutCopy } from '../ddl/no-copy.ts';
import { doorAt } from '../host/ports.ts';
import { EngineError } from '../engine/engine.ts';
import type { Engine } from '../engine/engine.ts';
import { openPostgresEngine } from '../engine/postgres.ts';
import type { Products } from '../engine/server-product.ts';
import { postgresDialect, risingwaveDialect } from './sql-dialect.ts';
import type { Rewritten } from '../types/sql.ts';
import type { GatewayOptions } from './gateway-options.ts';
import type { SqlSurroundings } from './sql-sessions.ts';
import type { Closer } from '../kit/closer.ts';
import type { Observe } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import type { SqlError } from '../errors/refusals.ts';
import type { EventDatabase, Settings } from '../config/settings.ts';
import { translateFields } from '../wire/errors.ts';

export function doorOptions(
  settings: Settings,
  { tls, gate }: Pick<GatewayOptions, 'tls' | 'gate'>,
): Pick<
  GatewayOptions,
  'host' | 'port' | 'fd' | 'fastPath' | 'token' | 'origins' | 'hosts' | 'tls' | 'gate'
> {
  return {
    ...doorAt(settings, 'gateway'),
    fastPath: settings.fastPath,
    token: settings.gatewayToken,
    origins: settings.gatewayOrigins,
    hosts: settings.gatewayHosts,
    tls,
    gate,
  };
}

export interface NamedEngine {
  readonly name: string;
  /** The setting with its connection string. */
  readonly env: string;
  readonly engine: Engine;
}

/** The databases of EVENTS_API_<DB>_DSN, in their order. Resolves once each has been tried. */
export async function openEventEngines(
  databases: readonly EventDatabase[],
  observe: Observe,
  closer: Closer,
): Promise<readonly NamedEngine[]> {
  return Promise.all(
    databases.map(async ({ name, env, dsn }) => {
      try {
        const engine = await openPostgresEngine({ name: env, databaseUrl: dsn, observe, serverVersionMin });
        closer.add(`database ${name}`, () => engine.close());
        return { name, env, engine };
      } catch (error) {
        if (error instanceof EngineError) throw new EngineError(`${env}: ${error.message}`);
        throw error;
      }
    }),
  );
}

/** For json_to_recordset and to_regclass; RisingWave reports version 13. */
const serverVersionMin = 100_000;

export function otherSqlRooms(engines: readonly NamedEngine[], products: Products): SqlSurroundings {
  const dialects = {
    postgresql: postgresDialect(withoutCopy(createTypeNameRewriter())),
    // RisingWave has a STRING type.
    risingwave: risingwaveDialect(withoutCopy(() => null)),
  };
  return {
    clientConfig: (database) => {
      const { engine } = engineOf(engines, database);
      return engine.clientConfig(engine.defaultDatabase);
    },
    ready: async (database) => void (await products.of(database)),
    dialect: (database) => dialects[products.known(database)],
    translate,
  };
}

/** Throws Refused if no engine has that name. */
export function engineOf(engines: readonly NamedEngine[], name: string | undefined): NamedEngine {
  const found = name === undefined ? engines[0] : engines.find((it) => it.name === name);
  if (found === undefined) throw new Refused('database_unknown');
  return found;
}

const asBytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

/** As the SQL door reports it: the relay's own translation, applied to fields that node-postgres has read. */
export function translate(error: DatabaseError, original: Buffer, rewritten: Rewritten | null): SqlError {
  const position =
    rewritten === null ? error.position : translatedPosition(error, original.toString('latin1'), rewritten);
  return {
    sqlstate: error.code ?? 'XX000',
    message: error.message,
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    ...(position === undefined ? {} : { position: Number(position) }),
  };
}

function translatedPosition(
  error: DatabaseError,
  original: string,
  rewritten: Rewritten,
): string | undefined {
  const fields = new Map<string, string>();
  const put = (key: string, value: string | undefined): void => {
    if (value !== undefined) fields.set(key, asBytes(value));
  };
  put('P', error.position);
  put('p', error.internalPosition);
  put('q', error.internalQuery);
  put('W', error.where);
  return translateFields(fields, original, rewritten, 'UTF8').get('P');
}
