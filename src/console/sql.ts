/**
 * Statements of one session: a client of Headgate's own SQL port, logged in as the session's role, so that rights, Headgate's
 * statements and passwords work as in psql. Takes SQL, returns rows as the texts that the engine wrote; refuses with
 * `engine_unavailable`, `login_required`, `overloaded` and `answer_too_large`, and throws SqlFailure with the engine's own errors.
 *
 * A reading call is one statement of the extended protocol inside `BEGIN READ ONLY` … `ROLLBACK`: it cannot end the
 * transaction and continue, and leaves no setting behind. Its connection is kept for the next one. A writing call runs as
 * given, on a connection of its own that is not reused. Bounded in time, rows and bytes; aborting `signal` cancels it.
 */
import type { Socket } from 'node:net';
import { Client } from 'pg';
import type { ClientConfig, DatabaseError, Connection } from 'pg';
import type { NoticeMessage } from 'pg-protocol/dist/messages.js';
import { rememberedOf } from '../kit/memoize.ts';
import { Cancellation } from '../engine/cancellation.ts';
import { hangUp, readInTurn } from '../engine/close-client.ts';
import { isConnectionLost } from '../engine/sqlstate.ts';
import { plainSession, plainTransaction } from '../kit/plain-settings.ts';
import { limits } from '../config/limits.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import type { SqlResponse, SqlCall, SqlColumn, SqlNotice, SqlTable } from './api.ts';
import { trustedSql } from '../relations/owner-code.ts';
import { quoteLiteral } from '../kit/sql-text.ts';

/** How to reach the SQL port, without credentials. */
export interface SqlDoorAt extends Pick<ClientConfig, 'host' | 'port' | 'ssl'> {
  /** Headgate's own. */
  readonly role: string;
}

export interface SqlWho {
  readonly user: string;
  readonly password: string | null;
  readonly database: string;
}

const cancellation = { statementMs: limits.consoleStatementMs, cancelMs: limits.consoleCancelMs };

export class SqlRunner {
  readonly #config: ClientConfig;
  readonly #running: RunningStatements;
  readonly #role: string;
  readonly #trust: string;
  #idle: { readonly client: Client; readonly timer: NodeJS.Timeout }[] = [];
  /** Asked when it is opened, and remembered. */
  readonly #openedMs = rememberedOf<Client, number>(() => performance.now());
  /** In which time zone a connection is; '': in the role's. */
  readonly #zoneOf = rememberedOf<Client, { name: string }>(() => ({ name: '' }));
  #closed = false;

  /** `running`: those of all sessions. */
  constructor({ role, ...door }: SqlDoorAt, who: SqlWho, running: RunningStatements) {
    this.#running = running;
    this.#role = who.user;
    this.#trust = catalogTrust(role);
    this.#config = {
      ...door,
      user: who.user,
      database: who.database,
      // '' instead of undefined, so that the environment is not consulted.
      password: who.password ?? '',
      application_name: 'headgate console',
      connectionTimeoutMillis: limits.consoleConnectMs,
      keepAlive: true,
    };
  }

  /** Whether the role can log in; throws as `run` does, with 28P01 for a wrong password. */
  async enter(): Promise<void> {
    this.#keep(await this.#connect());
  }

  /** Refuses with `login_required` if the role may no longer log in, or the session has ended. */
  async run({ sql, write, own = false, zone = '' }: SqlCall, signal: AbortSignal): Promise<SqlResponse> {
    return this.#running.run(this.#role, async () => {
      if (this.#closed) throw new Refused('login_required');
      const started = performance.now();
      const client = (write ? undefined : this.#takeIdle()) ?? (await this.#connectAgain());
      await this.#goTo(client, zone);
      const reading = new BoundedQuery(sql, write);
      const end = await this.#read(client, reading, signal, own ? { sql, zoned: zone !== '' } : null);
      return { ...answerOf(reading, end), ms: Math.round(performance.now() - started) };
    });
  }

  close(): void {
    this.#closed = true;
    for (const { client, timer } of this.#idle.splice(0)) {
      clearTimeout(timer);
      void hangUp(client);
    }
  }

  async #connect(): Promise<Client> {
    const client = new Client(this.#config);
    client.on('error', () => {});
    try {
      await client.connect();
      this.#openedMs(client);
      client.once('end', () => this.#drop(client));
      return client;
    } catch (error) {
      void hangUp(client);
      throw failureOf(error);
    }
  }

  async #connectAgain(): Promise<Client> {
    try {
      return await this.#connect();
    } catch (error) {
      // The password was changed, or it was dropped.
      const isRefused = error instanceof SqlFailure && error.error.sqlstate.startsWith('28');
      throw isRefused ? new Refused('login_required') : error;
    }
  }

  /** The engine may not know a zone of the browser: then times are those of the role's zone. */
  async #goTo(client: Client, zone: string): Promise<void> {
    const now = this.#zoneOf(client);
    if (zone === now.name) return;
    now.name = zone;
    const sql = zone === '' ? 'RESET TimeZone' : `SET TimeZone = '${zone}'`;
    await client.query(sql).catch(async (error: unknown) => {
      if ((error as DatabaseError).code === '22023') return;
      await hangUp(client);
      throw failureOf(error);
    });
  }

  /** `own`: the statement, if it is one of the console; `zoned`: with times of the connection’s zone, not of UTC. */
  async #read(
    client: Client,
    reading: BoundedQuery,
    signal: AbortSignal,
    own: { readonly sql: string; readonly zoned: boolean } | null,
  ): Promise<ReadEnd> {
    const ending = new Cancellation(client, this.#config, signal, cancellation);
    let clean = false;
    try {
      const before = [
        ...(reading.write
          ? []
          : ['BEGIN READ ONLY', `SET LOCAL statement_timeout = ${limits.consoleStatementMs}`]),
        ...(own?.zoned === true ? [keepZone] : []),
        ...(own === null ? [] : [reading.write ? plainSession : plainTransaction]),
        ...(own?.zoned === true ? [returnZone] : []),
      ];
      if (before.length > 0) await client.query(before.join('; '));
      if (own !== null && usesCatalog(own.sql)) await this.#refuseOther(client);
      const end = await reading.on(client);
      if (end.kind === 'failed' || end.kind === 'done') {
        if (!reading.write) await client.query('ROLLBACK');
        clean = !reading.write && !ending.cancelled;
      }
      return ending.late && end.kind !== 'done' ? { kind: 'late' } : end;
    } catch (error) {
      if (ending.late) return { kind: 'late' };
      throw failureOf(error);
    } finally {
      ending.end();
      if (clean) this.#keep(client);
      else void hangUp(client);
    }
  }

  async #refuseOther(client: Client): Promise<void> {
    const { rows } = await client.query<{ trusted: boolean | null }>(this.#trust);
    const { trusted = null } = rows[0] ?? {};
    if (trusted === null)
      throw new SqlFailure({ sqlstate: '42P01', message: 'this database has no schema headgate' });
    if (trusted) return;
    const message =
      'the schema headgate of this database was not made by Headgate, and what is in it is not run';
    throw new SqlFailure({ sqlstate: '42501', message });
  }

  #keep(client: Client): void {
    const ageMs = performance.now() - this.#openedMs(client);
    const isOld = ageMs > limits.consoleConnectionMs;
    if (this.#closed || isOld || this.#idle.length >= limits.consoleConnectionsMax)
      return void hangUp(client);
    const entry = { client, timer: setTimeout(() => this.#drop(client), limits.consoleConnectionIdleMs) };
    this.#idle.push(entry);
  }

  #takeIdle(): Client | undefined {
    const entry = this.#idle.pop();
    if (entry === undefined) return undefined;
    clearTimeout(entry.timer);
    return entry.client;
  }

  #drop(client: Client): void {
    const entry = this.#idle.find((it) => it.client === client);
    if (entry === undefined) return;
    clearTimeout(entry.timer);
    this.#idle = this.#idle.filter((it) => it !== entry);
    void hangUp(client);
  }
}

function answerOf(reading: BoundedQuery, end: ReadEnd): Omit<SqlResponse, 'ms'> {
  switch (end.kind) {
    case 'done':
      return { tables: reading.tables, notices: reading.notices };
    case 'failed':
      throw failureOf(end.error);
    case 'too_large':
      throw new Refused(
        'answer_too_large',
        reading.write ? 'the answer is larger than 8 MiB; the statement may have taken effect' : undefined,
      );
    case 'copying':
      throw new SqlFailure({
        sqlstate: '0A000',
        message: 'COPY … FROM STDIN and TO STDOUT are not possible here',
      });
    case 'late': {
      const message = `the statement ran longer than ${limits.consoleStatementMs / 1_000} s and was cancelled`;
      throw new SqlFailure({ sqlstate: '57014', message });
    }
  }
}

/** The plain settings of a transaction write times in UTC: around them the zone is kept. */
const keepZone =
  "SELECT pg_catalog.set_config('headgate.zone', pg_catalog.current_setting('TimeZone'), true)";
const returnZone =
  "SELECT pg_catalog.set_config('TimeZone', pg_catalog.current_setting('headgate.zone'), true)";

function failureOf(error: unknown): Error {
  if (error instanceof Refused || error instanceof SqlFailure) return error;
  const { code, message, severity, detail, hint, position } = error as DatabaseError;
  // node-postgres' own error if a password is required and none was given, or the server does not know it.
  if (message.startsWith('SASL'))
    return new SqlFailure({ sqlstate: '28P01', message: 'password authentication failed' });
  // An error without severity is not from the engine: the connection was refused or lost, or it is a bug.
  if (severity === undefined || code === undefined) {
    const lost =
      code !== undefined ||
      /^(?:Connection terminated|Client has encountered|Client was closed|timeout expired|the connection was lost)/.test(
        message,
      );
    return lost || !(error instanceof Error) ? new Refused('engine_unavailable') : error;
  }
  if (isConnectionLost(error)) return new Refused('engine_unavailable');
  return new SqlFailure({
    sqlstate: code,
    message,
    ...(detail === undefined ? {} : { detail }),
    ...(hint === undefined ? {} : { hint }),
    ...(position === undefined ? {} : { position: Number(position) }),
  });
}

/** No other statement of the console uses it: their search_path has PostgreSQL's own names alone. Headgate's statements read it, too. */
const usesCatalog = (sql: string): boolean => /headgate|^\s*(?:show|explain)\s/i.test(sql);

/**
 * Whether the schema headgate of a database is Headgate's own. The owner of a database that has none can make a schema of that name, and the
 * console would run the code in it with the rights of whoever opens an address there. Takes Headgate's role, returns SQL.
 *
 * One row: `trusted` is null if there is no such schema. Only its owner can replace a schema, so that of a trusted owner stays. As in
 * catalog/rights.ts, a Headgate that is no superuser trusts the owner of the database, too, who may have made the schema for it.
 */
function catalogTrust(role: string): string {
  const its = quoteLiteral(role);
  return `select (
    select ${trustedSql('o.oid')} or o.rolname = ${its} or (
      (o.oid = d.datdba or o.rolname = 'pg_database_owner')
      and not exists (select from pg_roles h where h.rolname = ${its} and h.rolsuper))
    from pg_namespace n join pg_roles o on o.oid = n.nspowner join pg_database d on d.datname = current_database()
    where n.nspname = 'headgate') as trusted`;
}

/** How many statements run for the sessions of the console: so many at one time, and fewer of one role. Refuses with `overloaded`. */
export class RunningStatements {
  #all = 0;
  readonly #ofRole = new Map<string, number>();

  /** `role`: whose sessions they are counted for. A request that is sent on its behalf counts as one. */
  async run<T>(role: string, work: () => Promise<T>): Promise<T> {
    const own = this.#ofRole.get(role) ?? 0;
    if (this.#all >= limits.consoleStatementsMax || own >= limits.consoleRoleStatementsMax)
      throw new Refused('overloaded');
    this.#all += 1;
    this.#ofRole.set(role, own + 1);
    try {
      return await work();
    } finally {
      this.#all -= 1;
      const left = (this.#ofRole.get(role) ?? 1) - 1;
      if (left === 0) this.#ofRole.delete(role);
      else this.#ofRole.set(role, left);
    }
  }
}

type ReadEnd =
  | { readonly kind: 'done' | 'too_large' | 'copying' | 'late' }
  | { readonly kind: 'failed'; readonly error: unknown };

interface SqlField {
  readonly name: string;
  readonly dataTypeID: number;
}

interface OpenTable {
  readonly columns: readonly SqlColumn[];
  readonly rows: (readonly (string | null)[])[];
  more: boolean;
}

/**
 * One statement on one connection, as a query object of node-postgres: its result is kept as the texts that the engine
 * wrote, up to a limit of rows and bytes. Takes SQL, returns tables, notices and how it ended; refuses nothing itself.
 *
 * Read only: the extended protocol, one statement, and one row more than is shown. Otherwise the simple protocol; excess
 * rows are read and discarded, because a statement that is cut off may or may not have taken effect.
 */
class BoundedQuery {
  readonly tables: SqlTable[] = [];
  readonly notices: SqlNotice[] = [];
  readonly write: boolean;
  readonly #sql: string;
  #open: OpenTable | null = null;
  #end: (end: ReadEnd) => void = () => {};

  constructor(sql: string, write: boolean) {
    this.#sql = sql;
    this.write = write;
  }

  /** Never rejects. After `too_large` and `copying` the connection is no longer usable. */
  async on(client: Client): Promise<ReadEnd> {
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
    let bytes = 0;
    // A value is buffered until it is complete, and may have a gigabyte, so bytes are counted as they arrive.
    const count = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > limits.consoleResultBytesMax) {
        this.#end({ kind: 'too_large' });
        stream.destroy();
      } else if (bytes > limits.answerAtOnceBytes) readInTurn(stream, chunk.length);
    };
    const notice = (told: NoticeMessage): void => {
      if (this.notices.length >= limits.consoleNoticesMax) return;
      const { severity = 'NOTICE', message = '', detail, hint } = told;
      this.notices.push({ severity, message, detail: detail ?? null, hint: hint ?? null });
    };
    stream.on('data', count);
    client.on('notice', notice);
    const gone = (): void => this.#end({ kind: 'failed', error: new Error('the connection was lost') });
    client.once('end', gone);
    try {
      return await new Promise<ReadEnd>((resolve) => {
        this.#end = resolve;
        client.query(this);
      });
    } finally {
      stream.off('data', count);
      client.off('notice', notice);
      client.off('end', gone);
    }
  }

  submit(connection: Connection): void {
    if (this.write) return connection.query(this.#sql);
    connection.stream.cork();
    connection.parse({ name: '', text: this.#sql, types: [] }, true);
    connection.bind({}, true);
    connection.describe({ type: 'P', name: '' }, true);
    connection.execute({ portal: '', rows: String(limits.consoleRowsMax + 1) }, true);
    connection.sync();
    connection.stream.uncork();
  }

  handleRowDescription({ fields }: { readonly fields: readonly SqlField[] }): void {
    const columns = fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
    this.#open = { columns, rows: [], more: false };
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const open = this.#open;
    if (open === null) return;
    if (open.rows.length < limits.consoleRowsMax) open.rows.push(fields);
    else open.more = true;
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#close(text);
  }

  handlePortalSuspended(): void {
    this.#close('');
  }

  handleEmptyQuery(): void {
    this.#close('');
  }

  handleCopyInResponse(): void {
    this.#end({ kind: 'copying' });
  }

  handleCopyData(): void {
    this.#end({ kind: 'copying' });
  }

  handleReadyForQuery(): void {
    this.#end({ kind: 'done' });
  }

  handleError(error: Error | DatabaseError): void {
    this.#end({ kind: 'failed', error });
  }

  #close(command: string): void {
    const { columns, rows, more } = this.#open ?? { columns: [], rows: [], more: false };
    this.#open = null;
    if (this.tables.length < limits.consoleResultTablesMax)
      this.tables.push({ columns, rows, command, more });
  }
}
