/**
 * What is known of one connection that commits, from its opening to its end: what its session was before any code ran in it, the pool that it is
 * lent from, and the statements that it has prepared; and the steps of a transaction, each of which is such a statement with its parameters. Takes
 * a connection, and statements as text; returns its state, the same each time, and the messages that prepare and execute statements.
 *
 * A prepared statement's name is made from its text, so that the same name never means two things, even if a pooler gives one session to several
 * connections. Their number per connection is bounded. A connection that others share through a pooler prepares nothing, nor does one that
 * turned out to have forgotten: each of their statements is unnamed, and parsed when it is executed.
 */
import { createHash } from 'node:crypto';
import type { ClientBase, Pool, PoolClient } from 'pg';
import { limits } from '../config/limits.ts';
import { rememberedOf } from '../kit/memoize.ts';
import type { CountedBackoff } from './counted-backoff.ts';
import { closeMessage, executeMessages, parseMessage } from './wire-message.ts';
import type { WireParameter } from './wire-message.ts';

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
export interface Reset {
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

export function stepOf(statement: PreparedStatement, parameters: readonly WireParameter[]): StatementStep {
  return { statement, messages: (name = statement.name) => executeMessages(name, parameters) };
}

/** A statement without parameters that is parsed each time. */
export function namelessStep(statement: string): StatementStep {
  return {
    statement: null,
    messages: () => [parseMessage('', statement, []), ...executeMessages('', [])],
  };
}

/** A step that is always the same. */
export function fixed(step: StatementStep): StatementStep {
  const made = step.messages();
  return { ...step, messages: (name) => (name === undefined ? made : step.messages(name)) };
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
