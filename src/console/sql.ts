/**
 * Statements of one session: a client of Headgate's own SQL port, logged in as the session's role, so that rights,
 * Headgate's statements and passwords are what they are for psql. Takes SQL, gives rows as the texts that the engine
 * wrote; refuses with `engine_unavailable`, `overloaded` and `answer_too_large`, and throws SqlFailure with the engine's
 * own errors.
 *
 * What only reads is one statement of the extended protocol inside `BEGIN READ ONLY` … `ROLLBACK`: it cannot end the
 * transaction and go on, and leaves no setting behind. Its connection is kept for the next. What writes runs as it is, on a
 * connection of its own that nobody uses after it. Bounded in time, rows and bytes; aborting `signal` cancels it.
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { Client } from 'pg';
import type { ClientConfig, Connection, DatabaseError } from 'pg';
import { limits } from '../tables/limits.ts';
import { Refused, SqlFailure } from '../tables/refusals.ts';
import type { SqlAnswer, SqlCall } from './api.ts';
import { Reading } from './reading.ts';
import type { ReadEnd } from './reading.ts';

/** How the SQL port is reached, without who comes. */
export type SqlDoorAt = Pick<ClientConfig, 'host' | 'port' | 'ssl'>;

export interface SqlWho {
  readonly user: string;
  readonly password: string | null;
  readonly database: string;
}

export class SqlRunner {
  readonly #config: ClientConfig;
  readonly #running: { count: number };
  #idle: { readonly client: Client; readonly timer: NodeJS.Timeout }[] = [];
  #closed = false;

  /** `running`: what all sessions run at present, counted together. */
  constructor(door: SqlDoorAt, who: SqlWho, running: { count: number }) {
    this.#running = running;
    this.#config = {
      ...door,
      user: who.user,
      database: who.database,
      // '' instead of nothing: the environment is not asked for one.
      password: who.password ?? '',
      application_name: 'headgate console',
      connectionTimeoutMillis: limits.consoleConnectMs,
      keepAlive: true,
    };
  }

  /** Whether the role may come in; throws as `run` does, with 28P01 for a wrong password. */
  async enter(): Promise<void> {
    this.#keep(await this.#connect());
  }

  async run({ sql, write }: SqlCall, signal: AbortSignal): Promise<SqlAnswer> {
    if (this.#running.count >= limits.consoleStatementsMax) throw new Refused('overloaded');
    this.#running.count += 1;
    const started = performance.now();
    try {
      const client = (write ? undefined : this.#takeIdle()) ?? (await this.#connect());
      const reading = new Reading(sql, write);
      const end = await this.#read(client, reading, signal);
      return { ...answerOf(reading, end), ms: Math.round(performance.now() - started) };
    } finally {
      this.#running.count -= 1;
    }
  }

  close(): void {
    this.#closed = true;
    for (const { client, timer } of this.#idle.splice(0)) {
      clearTimeout(timer);
      hangUp(client);
    }
  }

  async #connect(): Promise<Client> {
    const client = new Client(this.#config);
    client.on('error', () => {});
    try {
      await client.connect();
      client.once('end', () => this.#drop(client));
      return client;
    } catch (error) {
      hangUp(client);
      throw failureOf(error);
    }
  }

  async #read(client: Client, reading: Reading, signal: AbortSignal): Promise<ReadEnd> {
    const ending = new Ending(client, this.#config, signal);
    let clean = false;
    try {
      if (!reading.write)
        await client.query(`BEGIN READ ONLY; SET LOCAL statement_timeout = ${limits.consoleStatementMs}`);
      const end = await reading.on(client);
      if (end.kind === 'failed' || end.kind === 'done') {
        if (!reading.write) await client.query('ROLLBACK');
        clean = !reading.write && !ending.begun;
      }
      return ending.late && end.kind !== 'done' ? { kind: 'late' } : end;
    } catch (error) {
      if (ending.late) return { kind: 'late' };
      throw failureOf(error);
    } finally {
      ending.stop();
      if (clean) this.#keep(client);
      else hangUp(client);
    }
  }

  #keep(client: Client): void {
    if (this.#closed || this.#idle.length >= limits.consoleConnectionsMax) return hangUp(client);
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
    hangUp(client);
  }
}

function answerOf(reading: Reading, end: ReadEnd): Omit<SqlAnswer, 'ms'> {
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

function failureOf(error: unknown): Error {
  if (error instanceof Refused || error instanceof SqlFailure) return error;
  const { code, message, severity, detail, hint, position } = error as DatabaseError;
  // node-postgres' own words where a password is asked for and none was given, or the server does not know it.
  if (message.startsWith('SASL'))
    return new SqlFailure({ sqlstate: '28P01', message: 'password authentication failed' });
  // What has no severity was not said by the engine: the connection was refused or lost, or it is a bug.
  if (severity === undefined || code === undefined) {
    const lost =
      code !== undefined ||
      /^(?:Connection terminated|timeout expired|the connection was lost)/.test(message);
    return lost || !(error instanceof Error) ? new Refused('engine_unavailable') : error;
  }
  if (code === '57P03' || code === '57P01') return new Refused('engine_unavailable');
  return new SqlFailure({
    sqlstate: code,
    message,
    ...(detail === undefined ? {} : { detail }),
    ...(hint === undefined ? {} : { hint }),
    ...(position === undefined ? {} : { position: Number(position) }),
  });
}

function hangUp(client: Client): void {
  const { stream } = (client as unknown as { connection: Connection & { stream: Socket } }).connection;
  // In good order where it can; a session that is busy is cut off.
  void client.end().catch(() => undefined);
  setTimeout(() => stream.destroy(), limits.consoleCancelMs).unref();
}

/** Ends a statement that takes too long, or that nobody waits for. */
class Ending {
  begun = false;
  late = false;
  readonly #client: Client;
  readonly #config: ClientConfig;
  readonly #signal: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort = (): void => this.#cancel();
  #cutting: NodeJS.Timeout | null = null;

  constructor(client: Client, config: ClientConfig, signal: AbortSignal) {
    this.#client = client;
    this.#config = config;
    this.#signal = signal;
    this.#timer = setTimeout(() => {
      this.late = true;
      this.#cancel();
    }, limits.consoleStatementMs);
    if (signal.aborted) this.#cancel();
    else signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  stop(): void {
    clearTimeout(this.#timer);
    if (this.#cutting !== null) clearTimeout(this.#cutting);
    this.#signal.removeEventListener('abort', this.#onAbort);
  }

  #cancel(): void {
    if (this.begun) return;
    this.begun = true;
    const { processID, secretKey, connection } = this.#client as unknown as {
      processID: number | null;
      secretKey: number | null;
      connection: { stream: Socket };
    };
    this.#cutting = setTimeout(() => connection.stream.destroy(), limits.consoleCancelMs);
    if (processID === null || secretKey === null) return;
    const packet = Buffer.alloc(16);
    packet.writeInt32BE(16, 0);
    packet.writeInt32BE(80_877_102, 4);
    packet.writeInt32BE(processID, 8);
    packet.writeInt32BE(secretKey, 12);
    // In the clear, as libpq did before PostgreSQL 17: it holds nothing but the session's own number.
    const socket = connect({ host: this.#config.host ?? '127.0.0.1', port: this.#config.port ?? 5432 });
    socket.on('error', () => {});
    socket.setTimeout(limits.consoleCancelMs, () => socket.destroy());
    socket.end(packet);
    socket.resume();
  }
}
