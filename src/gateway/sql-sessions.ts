/**
 * Sessions of the engine for POST /v1/sql, per database and separate from every other use of it. Takes a request, returns its rows or the error;
 * refuses with `engine_unavailable`, `database_unknown`, `overloaded`, `draining`, `result_too_large`, `relation_not_streamed`, `malformed_query` and
 * `commit_unknown`. A session is borrowed to one request at a time and reused only after DISCARD ALL; a session in any doubt is cut off. Bounded in
 * sessions, waiting requests, time and bytes.
 */
import { rememberedOf } from '../kit/memoize.ts';
import { Pool } from 'pg';
import type { ClientBase, ClientConfig, DatabaseError, PoolClient } from 'pg';
import { Cancellation } from '../engine/cancellation.ts';
import { OrphanedBackends } from '../engine/orphaned-backends.ts';
import { notConnected } from '../engine/connection-failure.ts';
import { isConnectionLost, isTransient, refusesParameters, sqlstateOf } from '../engine/sqlstate.ts';
import { within } from '../kit/promises.ts';
import type { Rewritten } from '../types/sql.ts';
import { Semaphore, Semaphores } from '../kit/semaphore.ts';
import { isReadable, madeReadable } from '../kit/plain-settings.ts';
import { limits } from '../config/limits.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import type { SqlError } from '../errors/refusals.ts';
import { quoteIdentifier } from '../kit/sql-text.ts';
import { connectionOf } from '../commit/commit-connection.ts';
import { lendForCode } from '../commit/session-settings.ts';
import { OwnerSessions } from '../commit/owner-sessions.ts';
import { LoginRefused } from '../engine/owner-logins.ts';
import type { OwnerLogins } from '../engine/owner-logins.ts';
import { encodersOf } from './row-text.ts';
import type { SqlDialect } from './sql-dialect.ts';
import type { Encoders, Field } from './row-text.ts';
import { needsTypes, paramText } from './sql-request.ts';
import type { SqlRequest } from './sql-request.ts';
import { SqlResult } from './sql-result.ts';
import type { ResultMemory } from './sql-result.ts';
import { parameterTypes, resetSession, runSql } from './sql-run.ts';
import type { RunEnd } from './sql-run.ts';
import { builtinTypes, goneType, typeOf, typeQuery } from './sql-types.ts';
import type { SqlType, TypeRow } from './sql-types.ts';

const cancellation = { statementMs: limits.gatewaySqlTimeoutMs, cancelMs: limits.gatewayCancelMs };

/** The databases that SQL runs in. */
export interface SqlSurroundings {
  /** For a client of the pg package; throws Refused if the gateway does not serve the database. */
  readonly clientConfig: (database: string) => ClientConfig;
  /** Resolves if the database exists and its role may work in it; throws Refused. */
  readonly ready: (database: string) => Promise<void>;
  /** The database must be ready. */
  readonly dialect: (database: string) => SqlDialect;
  /** For sessions of the owners of tables; absent: there are none. */
  readonly logins?: OwnerLogins;
  /** Translates an error of the engine as if it had read the client's own text; `rewritten` null: it has. */
  readonly translate: (error: DatabaseError, original: Buffer, rewritten: Rewritten | null) => SqlError;
}

/** The engine's error about the client's SQL: answered with its SQLSTATE. */
/** SQLSTATE classes of Headgate's own errors that do not indicate wrong SQL. */
const transient = /^(?:08|40|53|57P|58)/;

export class SqlRefused extends Error {
  readonly error: SqlError;
  /** The same SQL can succeed later. */
  readonly mayPass: boolean;

  /** `mayPass`: null: its SQLSTATE, which Headgate has chosen, tells. */
  constructor(error: SqlError, mayPass: boolean | null = null) {
    super(error.message);
    this.name = 'SqlRefused';
    this.error = error;
    this.mayPass = mayPass ?? transient.test(error.sqlstate);
  }
}

/** A table whose rows are read. */
export interface TableRead {
  readonly oid: number;
  /** `"schema"."table"` */
  readonly name: string;
  /** The role that reads it. */
  readonly reader: string;
  /** The role (an oid) in whose session its rows are read; null: in the reader's own. */
  readonly owner: number | null;
  readonly ownerName: string;
}

/** A session of the owner of a table. */
export type OwnersSession = Pick<TableRead, 'reader'> & { readonly owner: number };

/** A session on loan. */
export interface BorrowedConnection {
  readonly client: ClientBase;
  /** For the columns of a result. */
  readonly encoders: (fields: readonly Field[]) => Promise<Encoders>;
  /** Absent: the session is the reader's own. */
  readonly ofOwner?: OwnersSession;
  /** Whoever has chosen the tables trusts their owners. */
  readonly readsAnyones?: boolean;
}

/** What a new session reports about itself. */
interface Session {
  readonly standardConformingStrings: boolean;
  /** Its results are not in the forms that the documentation promises. */
  readonly isHostile: boolean;
}

interface Database {
  readonly name: string;
  readonly pool: Pool;
  readonly config: ClientConfig;
  readonly shared: boolean;
  readonly dialect: SqlDialect;
  readonly types: Map<number, SqlType>;
}

export class SqlSessions {
  readonly #around: SqlSurroundings;
  readonly #memory: ResultMemory;
  readonly #databases = new Map<string, Database>();
  readonly #sessions = rememberedOf<ClientBase, { told: Session | null }>(() => ({ told: null }));
  readonly #large = new Semaphore(1);
  readonly #left: OrphanedBackends;
  readonly #owners: OwnerSessions | null;
  /** Each table that is followed may be at work, and each reader that catches up. */
  readonly #ownersTurns = new Semaphore(limits.streamTablesMax + limits.streamCatchUpsMax);
  /** An owner's code, and locks, hold sessions for as long as the owner likes. */
  readonly #turnsOfEach = new Semaphores<number>(limits.streamSessionsOfOwnerMax);
  #closed = false;

  constructor(around: SqlSurroundings, memory: ResultMemory) {
    this.#around = around;
    this.#memory = memory;
    this.#left = new OrphanedBackends(around.clientConfig);
    const { logins } = around;
    const times = {
      statementTimeoutMs: limits.gatewaySqlTimeoutMs,
      connectTimeoutMs: limits.gatewaySqlWaitMs,
    };
    this.#owners =
      logins === undefined
        ? null
        : new OwnerSessions({ logins, applicationName: 'headgate gateway', ...times });
  }

  /** The caller must call the result's `release`. Throws Refused or SqlRefused. `signal`: the client has left. */
  async run(name: string, request: SqlRequest, signal: AbortSignal): Promise<SqlResult> {
    await this.#around.ready(name);
    const database = this.#open(name);
    const client = await this.#borrow(database);
    const result = new SqlResult((oid) => database.types.get(oid), this.#memory);
    const watch = new Cancellation(client, database.config, signal, cancellation);
    let clean = false;
    try {
      const ran = await this.#rewriteAndRun(database, client, request, result);
      clean = ran.clean && !watch.cancelled;
      if (ran.end.kind === 'done') {
        if (!database.dialect.transactions && result.statements > 1) result.notice(eachByItself);
        if (clean) await learnTypes(client, database, result.unknownTypes());
        if (!result.settleTypes() || !(await result.settleLarge())) throw new Refused(result.refused);
        return result;
      }
      throw failureOf(ran, request, result, watch.late, database.dialect);
    } catch (error) {
      result.release();
      throw error;
    } finally {
      watch.end();
      // A cancel request still in flight would hit the session's next user.
      client.release(!clean || watch.cancelled || !database.dialect.renews);
    }
  }

  /**
   * Lends a session to a stream, which only reads: the reader's own or, for rows of a table with an `owner`, one of that role. Throws Refused or
   * SqlRefused. `signal`: the stream is no longer wanted.
   */
  async lend<T>(
    name: string,
    signal: AbortSignal,
    work: (borrowed: BorrowedConnection) => Promise<T>,
    table: TableRead | null = null,
  ): Promise<T> {
    await this.#around.ready(name);
    const database = this.#open(name);
    if (!database.dialect.streams) throw new Refused('relation_not_streamed', notStreamed);
    const owner = table?.owner ?? null;
    if (table === null || owner === null)
      return this.#lendOne(database, signal, work, await this.#borrow(database));
    const done = await this.#turn(owner);
    try {
      const client = await this.#borrowOf(name, owner, table);
      const { reader } = table;
      return await this.#lendOne(database, signal, work, client, { owner, reader });
    } finally {
      done();
    }
  }

  async #lendOne<T>(
    database: Database,
    signal: AbortSignal,
    work: (borrowed: BorrowedConnection) => Promise<T>,
    client: PoolClient,
    ofOwner?: OwnersSession,
  ): Promise<T> {
    const watch = new Cancellation(client, database.config, signal, cancellation);
    let clean = false;
    try {
      // What code of the owner has left there is removed before the session is used again.
      const reset = ofOwner === undefined ? null : connectionOf(client).takeReset();
      if (reset !== null) await client.query(reset.sql);
      const done = await work({
        client,
        encoders: async (fields) => {
          const known = (oid: number) => builtinTypes.get(oid) ?? database.types.get(oid);
          const unknown = fields.map((field) => field.dataTypeID).filter((oid) => known(oid) === undefined);
          await learnTypes(client, database, [...new Set(unknown)]);
          return encodersOf(fields, (oid) => known(oid) ?? goneType) ?? [];
        },
        ...(ofOwner && { ofOwner }),
      });
      clean = ofOwner !== undefined || (await resetSession(client));
      return done;
    } catch (error) {
      if (watch.cancelled || isConnectionLost(error)) throw new Refused('engine_unavailable');
      if (sqlstateOf(error) === null) throw error;
      const failed = error as DatabaseError;
      throw new SqlRefused(this.#around.translate(failed, Buffer.alloc(0), null), isTransient(failed));
    } finally {
      watch.end();
      client.release(!clean || watch.cancelled);
    }
  }

  async #turn(owner: number): Promise<() => void> {
    const turn = this.#turnOf(owner);
    const done = await within(limits.gatewaySqlWaitMs, turn, null);
    if (done !== null) return done;
    void turn.then((late) => late());
    throw new Refused('overloaded');
  }

  async #turnOf(owner: number): Promise<() => void> {
    const ofEach = await this.#turnsOfEach.turn(owner);
    const ofAll = await this.#ownersTurns.turn();
    return () => {
      ofAll();
      ofEach();
    };
  }

  async #borrowOf(
    database: string,
    owner: number,
    { oid, name, reader, ownerName }: TableRead,
  ): Promise<PoolClient> {
    const [from, to] = [quoteIdentifier(reader), quoteIdentifier(ownerName)];
    const refused = (message: string) =>
      new Refused(
        'relation_not_streamed',
        `planning a query of ${name} runs code of its owner ${to}, and ${message}; or, if that role may act as ${from}, run GRANT ${from} TO ${to}`,
      );
    if (this.#owners === null)
      throw refused(
        `this gateway has no sessions of that role: log in as ${quoteIdentifier(ownerName)}, or read the table through a Headgate that serves the database`,
      );
    try {
      const client = await this.#owners.connect(database, owner);
      lendForCode(client, oid);
      return client;
    } catch (error) {
      throw error instanceof LoginRefused ? refused(error.message) : notConnected(error);
    }
  }

  /** Releases a database, so that it can be dropped or renamed. */
  async release(name: string): Promise<void> {
    const database = this.#databases.get(name);
    this.#databases.delete(name);
    if (database === undefined) return;
    // Idle sessions end at once. The wait for borrowed ones is short: one of them may be dropping the database.
    const ended = Promise.all([database.pool.end(), this.#owners?.release(name)]);
    await within(limits.engineFarewellMs, ended, undefined);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#databases.keys()].map((name) => this.release(name)));
  }

  async #rewriteAndRun(
    database: Database,
    client: PoolClient,
    request: SqlRequest,
    result: SqlResult,
  ): Promise<{
    end: RunEnd;
    clean: boolean;
    rewritten: Rewritten | null;
    translate: SqlSurroundings['translate'];
  }> {
    const { translate } = this.#around;
    // Until the session is reset after the request, which may set something else.
    if (this.#sessions(client).told?.isHostile === true) await client.query(madeReadable);
    const rewritten = await this.#rewrite(database, client, request.sql);
    const sql = rewritten === null ? request.sql : Buffer.from(rewritten.sql, 'latin1');
    let values: (string | null)[][] | null = null;
    if (request.params !== null) {
      const { paramsMax } = database.dialect;
      if (request.params.some(({ length }) => length > paramsMax))
        throw new Refused('malformed_query', `a statement has at most ${paramsMax} parameters here`);
      let types: readonly number[] = [];
      if (request.params.some(needsTypes)) {
        try {
          types = await parameterTypes(client, sql);
        } catch (error) {
          const end = { kind: 'failed', error: error as DatabaseError } as const;
          return { end, clean: await resetSession(client), rewritten, translate };
        }
      }
      values = request.params.map((set) => set.map((param, index) => paramText(param, types[index] ?? 0)));
    }
    const ran = await runSql(client, { sql, values, result, large: this.#large });
    result.spell(database.dialect.command);
    if (rewritten !== null) result.rename(rewritten.tags);
    return { ...ran, rewritten, translate };
  }

  /** Translates the statements that the engine does not know; null: it knows them all. */
  async #rewrite(database: Database, client: PoolClient, sql: Buffer): Promise<Rewritten | null> {
    const rewrite = database.dialect.rewrite(sql.toString('latin1'), {
      database: database.config.database ?? database.name,
      user: database.config.user ?? '',
      standardConformingStrings: this.#sessions(client).told?.standardConformingStrings ?? true,
      clientEncoding: 'UTF8',
    });
    if (rewrite === null) return null;
    if (rewrite.kind === 'error') throw new SqlRefused(inCharacters(rewrite.error, sql));
    try {
      if (rewrite.kind === 'deferred') return await rewrite.prepare();
      await rewrite.before?.();
      return rewrite;
    } catch (error) {
      if (error instanceof SqlFailure) throw new SqlRefused(error.error);
      throw error;
    }
  }

  #open(name: string): Database {
    const known = this.#databases.get(name);
    if (known !== undefined) return known;
    if (this.#closed) throw new Refused('draining');
    const config = this.#around.clientConfig(name);
    if (this.#databases.size >= limits.databasesMax) {
      const idle = [...this.#databases.values()].find(({ pool }) => pool.totalCount === 0);
      if (idle === undefined) throw new Refused('overloaded');
      void this.release(idle.name);
    }
    return this.#add(name, config, false);
  }

  /** `shared`: the connection passes a pooler, which accepts no settings with it; the gateway's own clock must suffice. */
  #add(name: string, config: ClientConfig, shared: boolean): Database {
    const dialect = this.#around.dialect(name);
    const pool = new Pool({
      ...config,
      max: limits.gatewaySqlConnectionsMax,
      connectionTimeoutMillis: limits.gatewaySqlWaitMs,
      idleTimeoutMillis: 60_000,
      application_name: 'headgate gateway',
      ...(shared ? {} : { statement_timeout: limits.gatewaySqlTimeoutMs }),
      // pg-pool awaits the result of onConnect, although its types do not say so.
      onConnect: ((client: ClientBase) => this.#greet(client, shared, dialect)) as (
        client: ClientBase,
      ) => void,
    });
    // If a session breaks while borrowed, its request gets the error; the event needs no handling.
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
    if (!shared && dialect.transactions) this.#left.watch(name, pool);
    const database = { name, pool, config, shared, dialect, types: new Map(dialect.types) };
    this.#databases.set(name, database);
    return database;
  }

  async #greet(client: ClientBase, shared: boolean, { streams }: SqlDialect): Promise<void> {
    const { rows } = await client.query<{ value: string }>(
      `select pg_catalog.current_setting('standard_conforming_strings') as value`,
    );
    const standardConformingStrings = rows[0]?.value !== 'off';
    const isHostile =
      !shared && streams && (await client.query<{ plain: boolean }>(isReadable)).rows[0]?.plain !== true;
    this.#sessions(client).told = { standardConformingStrings, isHostile };
  }

  async #borrow(database: Database): Promise<PoolClient> {
    const { pool } = database;
    if (pool.waitingCount >= limits.gatewaySqlWaitingMax) throw new Refused('overloaded');
    try {
      return await pool.connect();
    } catch (error) {
      if (!database.shared && refusesParameters(error)) {
        await this.release(database.name);
        return this.#borrow(this.#add(database.name, database.config, true));
      }
      if (pool.totalCount === 0) void this.release(database.name).catch(() => {});
      throw notConnected(error);
    }
  }
}

/** Looks up the names of types that are new here; types that the engine does not know stay unknown. */
async function learnTypes(
  client: PoolClient,
  { types, dialect }: Database,
  oids: readonly number[],
): Promise<void> {
  if (oids.length === 0 || dialect.types !== null) return;
  if (types.size + oids.length > limits.gatewayTypesMax) types.clear();
  const { rows } = await client.query<TypeRow>(typeQuery, [oids.join(',')]);
  for (const row of rows) types.set(Number(row.oid), typeOf(row));
}

const notStreamed =
  'RisingWave gives rows no position that a stream could go on from: read them with a subscription or a sink of RisingWave';

const eachByItself = {
  severity: 'WARNING',
  message: 'each statement was committed by itself: RisingWave has no transactions',
  detail: undefined,
  hint: undefined,
};

function failureOf(
  ran: { end: RunEnd; clean: boolean; rewritten: Rewritten | null; translate: SqlSurroundings['translate'] },
  request: SqlRequest,
  result: SqlResult,
  late: boolean,
  { transactions }: SqlDialect,
): Error {
  const { end, rewritten, translate } = ran;
  const timeout = `the SQL ran longer than ${limits.gatewaySqlTimeoutMs / 1_000} s and was cancelled`;
  switch (end.kind) {
    case 'failed': {
      const { error } = end;
      // If the session has answered since, the error was the statement's, whatever its SQLSTATE.
      if (!ran.clean && isConnectionLost(error)) return new Refused('engine_unavailable');
      if (late) return new SqlRefused({ sqlstate: '57014', message: timeout });
      const told = translate(error, request.sql, rewritten);
      if (transactions || result.statements === 0) return new SqlRefused(told, isTransient(error));
      const hint = `${result.statements} statements before it were committed by themselves: RisingWave has no transactions.`;
      return new SqlRefused({ ...told, hint }, isTransient(error));
    }
    case 'open_transaction':
      return new SqlRefused({
        sqlstate: '25000',
        message: 'the SQL left a transaction open, which was rolled back',
        hint: 'End it with COMMIT in the same request.',
      });
    case 'copying':
      return new SqlRefused({
        sqlstate: '0A000',
        message: 'COPY … FROM STDIN and COPY … TO STDOUT are not possible over HTTP',
        hint: 'Send rows with POST /v1/events, read them with SELECT, or use a PostgreSQL connection.',
      });
    case 'too_large':
      return new Refused(result.refused);
    default:
      if (late) return new SqlRefused({ sqlstate: '57014', message: timeout });
      return new Refused(
        'commit_unknown',
        'the connection to the database was lost; the SQL may have taken effect',
      );
  }
}

/** The rewriter counts bytes from 1, and quotes the client's bytes as latin1; readers count characters. */
function inCharacters(error: SqlError, sql: Buffer): SqlError {
  const decoded = (text: string): string =>
    // oxlint-disable-next-line no-control-regex
    /^[\u0000-\u00ff]*$/.test(text) ? Buffer.from(text, 'latin1').toString('utf8') : text;
  return {
    ...error,
    message: decoded(error.message),
    ...(error.position === undefined
      ? {}
      : { position: characters(sql.subarray(0, error.position - 1)) + 1 }),
  };
}

/** In UTF-8 every character has exactly one byte that is not a continuation byte. */
function characters(bytes: Buffer): number {
  return bytes.reduce((sum, byte) => ((byte & 0xc0) === 0x80 ? sum : sum + 1), 0);
}
