/**
 * One connection that commits, from its opening to its end. Takes a connection; returns its state, the same each time. Touches nothing else.
 *
 * Its session is prepared: the settings that a durable row needs, what the server gives it, the incarnation of the server that it belongs to, and
 * what removes what code has left in it.
 *
 * A prepared statement's name is made from its text, so that the same name never means two things, even if a pooler gives one session to several
 * connections. Their number per connection is bounded. A connection that others share through a pooler prepares nothing, nor does one that
 * turned out to have forgotten: each of their statements is unnamed, and parsed when it is executed. A step is such a statement with its parameters.
 *
 * Whose session stores the rows of a group is decided here alone (`forRows`). Rows of a table that runs no code: the role that stores such rows of all
 * owners. Rows of a table that runs code, and rows that are looked for in a table, which PostgreSQL plans: the table's owner.
 */
import { createHash } from 'node:crypto';
import type { ClientBase, Pool, PoolClient } from 'pg';
import { limits } from '../config/limits.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { closeMessage, parseMessage } from './wire-message.ts';
import type { CountedBackoff } from './counted-backoff.ts';
import type { Group } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { forCitus, safePath } from './statements.ts';

export interface PreparedStatement {
  readonly name: string;
  /** Prepares it, whether it exists or not. */
  readonly messages: readonly Buffer[];
  /** Parses it without a name. */
  readonly nameless: Buffer;
}

export function toStatement(sql: string, types: readonly number[]): PreparedStatement {
  const hash = createHash('sha256')
    .update(`${types.join(' ')} ${sql}`)
    .digest('hex');
  const name = `headgate_${hash.slice(0, 32)}`;
  const messages = [closeMessage(name), parseMessage(name, sql, types)];
  return { name, messages, nameless: parseMessage('', sql, types) };
}

/** What one connection has prepared, or a part of it. */
export class PreparedStatements {
  /** In order of their last use, with the number of that use. */
  readonly #known = new Map<string, number>();
  #uses = 0;
  /** Prepared in a transaction that failed: they may exist or not. */
  #doubtful = new Set<string>();
  #isForgetful = false;
  /** Lately requested and not prepared, in the order of the requests. */
  readonly #missed = new Set<string>();

  readonly #max: number;

  /** `max`: how many it may hold. */
  constructor(max: number = limits.commitStatementsMax) {
    this.#max = max;
  }

  /** Whether statements have been lost that should have existed: nothing can be built on those of this connection. */
  get isForgetful(): boolean {
    return this.#isForgetful;
  }

  /**
   * Whether a statement that is not strictly needed is worth preparing: it exists, there is room, or it is requested for a second
   * time within as many others as the connection holds. With very many tables in turn, each would push out another that is
   * needed again as soon.
   */
  isWorthwhile({ name }: PreparedStatement): boolean {
    if (this.#known.has(name) || this.size < this.#max) return true;
    if (this.#missed.delete(name)) return true;
    this.#missed.add(name);
    const [oldest] = this.#missed;
    if (oldest !== undefined && this.#missed.size > this.#max) this.#missed.delete(oldest);
    return false;
  }

  /**
   * The names of those that can be used together: they exist, or there is room, or others that were not used the last `restMin`
   * times make room. So if there are more tables than room, those that exist stay.
   */
  roomFor(statements: readonly PreparedStatement[], restMin: number): ReadonlySet<string> {
    const fit = new Set(statements.map(({ name }) => name));
    const missing = [...fit].filter((name) => !this.#known.has(name));
    let room = this.#max - this.size;
    for (const [name, lastUse] of this.#known) {
      if (room >= missing.length || this.#uses - lastUse < restMin) break;
      if (!fit.has(name)) room += 1;
    }
    for (const name of missing.slice(Math.max(0, room))) fit.delete(name);
    return fit;
  }

  /** How many the connection may hold. */
  get size(): number {
    return this.#known.size + this.#doubtful.size;
  }

  /** What has to be sent first, so that all of these can be used; `again`: even if this connection has them. */
  prepare(statements: Iterable<PreparedStatement>, again = false): Buffer[] {
    const messages: Buffer[] = [];
    const wanted = new Set<string>();
    this.#uses += 1;
    for (const { name, messages: parse } of statements) {
      if (wanted.has(name)) continue;
      wanted.add(name);
      if (this.#known.delete(name) && !again) {
        this.#known.set(name, this.#uses);
        continue;
      }
      messages.push(...parse);
      this.#doubtful.add(name);
    }
    for (const name of this.#doubtful) {
      if (wanted.has(name)) continue;
      messages.push(closeMessage(name));
      this.#doubtful.delete(name);
    }
    for (const name of this.#known.keys()) {
      if (this.size <= this.#max) break;
      if (wanted.has(name)) continue;
      messages.push(closeMessage(name));
      this.#known.delete(name);
    }
    return messages;
  }

  /** What was sent last has been executed. */
  succeeded(): void {
    for (const name of this.#doubtful) this.#known.set(name, this.#uses);
    this.#doubtful = new Set();
  }

  /** A statement that should exist does not. */
  forgotten(): void {
    this.#isForgetful = true;
    this.#known.clear();
  }
}

/** One statement with its parameters, as it is sent. */
export interface StatementStep {
  /** null: it is unnamed, and parsed each time. */
  readonly statement: PreparedStatement | null;
  /** Made when they are about to be written, so that a large request is not held twice. `name`: of the prepared statement. */
  readonly messages: (name?: string) => readonly Buffer[];
  /** It stores nothing, and fails with 22P02 if the table, or what is needed for it, has changed. */
  readonly checks?: true;
  readonly deletes?: true;
  /** It claims the ids of deliveries (deliveries.ts). */
  readonly claims?: true;
  /** It comes between rows, and stores none. */
  readonly between?: true;
  /** Which row of the transaction a place in its documents is: for a statement that says which rows were stale. */
  readonly rowAt?: (place: number) => number;
  /** It is the short statement of rows that may not be newer (newest-statements.ts). */
  readonly trials?: CountedBackoff;
}

/** `isNameless`: each statement is parsed where it is executed, and depends on nothing that a session remembers. */
export function* executeSteps(steps: readonly StatementStep[], isNameless: boolean): Generator<Buffer> {
  for (const { statement, messages } of steps) {
    if (!isNameless || statement === null) yield* messages();
    else {
      yield statement.nameless;
      yield* messages('');
    }
  }
}

export function* statementsOf(steps: readonly StatementStep[]): Generator<PreparedStatement> {
  for (const { statement } of steps) if (statement !== null) yield statement;
}

/** What a session was before any code ran in it. */
export interface SessionFacts {
  /** Headgate's role. */
  readonly role: string;
  /** The search_path that the server gives this role: the code of tables sees it, as it does for any other client. */
  readonly path: string;
  /** The lowest synchronous_commit that makes a row durable on this server. */
  readonly commit: string;
  /** The server's log can be followed: each row of a COPY is then written separately (document-copy.ts). */
  readonly apart: boolean;
}

/** What removes what code has left in a session. */
interface Reset {
  readonly sql: string;
  /** How many statements it holds. */
  readonly count: number;
}

/** As whom a pool connects, and for what. */
export type CommitRole = 'own' | 'writer' | 'code';

export interface CommitPool {
  readonly database: string;
  readonly kind: CommitRole;
  readonly pool: Pool;
  readonly shared: boolean;
  /** When the engine last had no connection left for it. */
  limitedAtMs: number | null;
  /** Whether it was logged. */
  said: boolean;
  /** Given back in this turn of the event loop. */
  readonly warm: PoolClient[];
  /** Nothing of it is kept any more. */
  isOver: boolean;
  /** Connections that keep a statement for each of very many tables. */
  readonly learned: Set<ClientBase>;
  /** Asked once per database; null: not yet. */
  isPgpool: Promise<boolean> | null;
}

export class CommitConnection {
  /** The statements that exist on it. */
  readonly prepared = new PreparedStatements();
  /** Those of shared transactions (multi-table-statement.ts), apart: for the few connections that keep one for each of thousands of tables. */
  readonly preparedForMany = new PreparedStatements(limits.sharedStatementsMax);
  /** The incarnation of the server that it belongs to; null: not known. */
  incarnation: string | null = null;
  /** The table whose code has run in its session last. */
  codeOf: number | null = null;
  /** The session is lent again: this has to be sent first. */
  reset: Reset | null = null;
  /** The pool that it is lent from; null: none of CommitPools, as sessions of owners. */
  pool: CommitPool | null = null;
  #facts: SessionFacts | null = null;

  /** Throws if the connection is none of CommitPools. */
  get facts(): SessionFacts {
    if (this.#facts === null) throw new Error('a connection that no pool has prepared');
    return this.#facts;
  }

  set facts(facts: SessionFacts) {
    this.#facts = facts;
  }

  /** Returned once for each time the session is lent. */
  takeReset(): Reset | null {
    const { reset } = this;
    this.reset = null;
    return reset;
  }
}

export const connectionOf = rememberedOf<ClientBase, CommitConnection>(() => new CommitConnection());

const deleting = rememberedOf((target: Target): Target => ({
  ...target,
  code: { ...target.code, as: target.code.deletesAs },
}));

/** The target as it is for these rows; `code.as` says whose session it is. */
export function forRows({ target, members }: Pick<Group, 'target' | 'members'>): Target {
  const { code } = target;
  if (code.as === code.deletesAs || !members.some(({ deletes }) => deletes?.includes(1) === true))
    return target;
  return deleting(target);
}

/** Storing its rows runs no code. */
export function isPlain({ code }: Pick<Target, 'code'>): boolean {
  return code.as === 'writer';
}

/** A pooler lends this session to others, too. */
export class BorrowedSession extends Error {
  override readonly name = 'BorrowedSession';
}

/** Citus accepts no COPY with a WHERE into tables that it distributes. */
const foundSql = `select current_user as role, pg_catalog.current_setting('synchronous_commit') as commit,
  pg_catalog.texteq(pg_catalog.current_setting('wal_level'), 'logical') and pg_catalog.to_regclass('pg_catalog.pg_dist_partition') is null as apart`;

/**
 * A 200 promises a durable row: on a server configured for less, Headgate still waits for the server's own disk. And what ends a
 * transaction must see a table that was changed while its first statement waited for a lock: a server whose default
 * is one view of the data per transaction is asked for one per statement. Warnings are received: one of them says that
 * a commit is not as durable as it should be.
 *
 * In Headgate's SQL no object that others have made may take precedence over PostgreSQL's own, not even by what an owner of the
 * database has set for everybody: no operator and no cast is used before the path is set.
 *
 * Throws BorrowedSession, and has set nothing, if a pooler that took the start-up parameters is in between: the process that
 * answers is not the one that the connection was told of (BackendKeyData); also if `isOther` says that it is pgpool, which
 * resets what was set when the connection ends.
 */
export async function prepareSession(client: ClientBase, isOther: () => Promise<boolean>): Promise<void> {
  const own = 'pg_catalog.int4eq(pg_catalog.pg_backend_pid(), $1)';
  const { processID } = client as unknown as { readonly processID: number | null };
  const { rows } = await client.query<SessionFacts & { readonly own: boolean }>(
    `${foundSql}, ${own} as own, pg_catalog.current_setting('search_path') as path,
       case when ${own} then pg_catalog.set_config('search_path', '${safePath}', false) end`,
    [processID ?? 0],
  );
  if (rows[0]?.own !== true || (await isOther()))
    throw new BorrowedSession('the session is lent by a pooler');
  await client.query(sessionSql, [remember(client, rows[0]).commit]);
  connectionOf(client).incarnation = await readIncarnation(client);
}

const sessionSql = `select pg_catalog.set_config('search_path', '${safePath}', false),
  pg_catalog.set_config('default_transaction_isolation', 'read committed', false), pg_catalog.set_config('jit', 'off', false),
  pg_catalog.set_config('synchronous_commit', $1, false), pg_catalog.set_config('client_min_messages', 'warning', false),
  ${forCitus(false)}`;

/** For a session that others use, too, and in which nothing is set. */
export async function lookAtSession(client: ClientBase): Promise<void> {
  const { rows } = await client.query<SessionFacts>(
    `${foundSql}, s.reset_val as path from pg_catalog.pg_settings s
     where s.name operator(pg_catalog.=) 'search_path'::pg_catalog.text`,
  );
  remember(client, rows[0]);
}

function remember(client: ClientBase, found: SessionFacts | undefined): SessionFacts {
  const { role = '', path = '', commit = 'on', apart = false } = found ?? {};
  const known = { role, path, apart, commit: commit === 'off' ? 'on' : commit };
  connectionOf(client).facts = known;
  return known;
}

/**
 * A session in which code runs is lent for rows of `table`. Between two tables of one owner what code has left is removed, so that
 * each stores its rows as if it were alone: role, settings, cursors, temporary tables, advisory locks and LISTEN. Statements that Headgate has
 * prepared stay. Code of the table itself is met again by what it has left, except for role and settings.
 */
export function lendForCode(client: ClientBase, table: number): void {
  const connection = connectionOf(client);
  const before = connection.codeOf;
  connection.codeOf = table;
  if (before === null) return;
  const statements = ['reset session authorization', 'reset role', 'reset all'];
  if (before !== table)
    statements.push('close all', 'unlisten *', 'discard temp', 'select pg_catalog.pg_advisory_unlock_all()');
  statements.push(sessionSql.replace('$1', quoteLiteral(connection.facts.commit)));
  connection.reset = { sql: statements.join('; '), count: statements.length };
}

/**
 * Numbers of transactions that were not on the disk are given out again after a crash, and by a standby that took
 * over, so a number means something within one incarnation of one server only. A new process has another start time; a
 * recovery within the same process, after a backend was killed, resets its statistics.
 */
const incarnationSql = `select pg_catalog.concat(pg_catalog.to_json(pg_catalog.pg_postmaster_start_time()), ' ', pg_catalog.to_json(stats_reset)) as life
  from pg_catalog.pg_stat_bgwriter where stats_reset is not null and not pg_catalog.pg_is_in_recovery()`;

async function readIncarnation(client: ClientBase): Promise<string | null> {
  try {
    const { rows } = await client.query<{ life: string }>(incarnationSql);
    return rows[0]?.life ?? null;
  } catch (error) {
    // The server has no such views; a lost connection would show in the next statement.
    if (sqlstateOf(error) === null) throw error;
    return null;
  }
}
