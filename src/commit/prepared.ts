/**
 * Prepared statements of the connections that commit. A statement is named by what it says, so that the same name
 * never means two things, not even where a pooler hands one session to several connections. What a connection holds
 * is bounded, and when it turns out to have forgotten (a pooler between gave it another session) everything is
 * prepared again, from then on in each transaction.
 */
import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';
import { limits } from '../tables/limits.ts';
import { closeMessage, parseMessage } from './wire-message.ts';

export interface Statement {
  readonly name: string;
  /** Prepares it, whether it is there or not. */
  readonly messages: readonly Buffer[];
}

/** Rows on their way into a table by one statement, and whatever goes out behind it. */
export interface PreparedRows {
  /** The one that stores them. */
  readonly statement: Statement;
  readonly messages: readonly Buffer[];
  /** How many statements are executed, and which of them look at the table, from 0. */
  readonly count: number;
  readonly checks: readonly number[];
}

export function toStatement(sql: string, types: readonly number[]): Statement {
  const hash = createHash('sha256')
    .update(`${types.join(' ')} ${sql}`)
    .digest('hex');
  const name = `headgate_${hash.slice(0, 32)}`;
  return { name, messages: [closeMessage(name), parseMessage(name, sql, types)] };
}

/** What one connection has prepared. */
export class PreparedStatements {
  /** In order of their last use. */
  readonly #known = new Set<string>();
  /** Prepared in a transaction that failed: there, or not. */
  #doubtful = new Set<string>();
  #forgetful: boolean;
  /** Asked for lately and not prepared, in the order of asking. */
  readonly #missed = new Set<string>();

  /** `shared`: others use the session too, and a name may mean what somebody else's code has put there. */
  constructor(shared = false) {
    this.#forgetful = shared;
  }

  /**
   * Whether a statement that can be done without is worth preparing: it is there, there is room, or it is asked for a second time
   * within as many others as the connection holds. Of very many tables in turn each would push out another that comes
   * again as soon.
   */
  isWorthwhile({ name }: Statement): boolean {
    if (this.#known.has(name) || this.size < limits.commitStatementsMax) return true;
    if (this.#missed.delete(name)) return true;
    this.#missed.add(name);
    const [oldest] = this.#missed;
    if (oldest !== undefined && this.#missed.size > limits.commitStatementsMax) this.#missed.delete(oldest);
    return false;
  }

  /** How many the connection may hold. */
  get size(): number {
    return this.#known.size + this.#doubtful.size;
  }

  /** What has to be sent first, so that all of these can be used; `again`: even if this connection has them. */
  prepare(statements: Iterable<Statement>, again = this.#forgetful): Buffer[] {
    const messages: Buffer[] = [];
    const wanted = new Set<string>();
    for (const { name, messages: parse } of statements) {
      if (wanted.has(name)) continue;
      wanted.add(name);
      if (this.#known.delete(name) && !again) {
        this.#known.add(name);
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
    for (const name of this.#known) {
      if (this.size <= limits.commitStatementsMax) break;
      if (wanted.has(name)) continue;
      messages.push(closeMessage(name));
      this.#known.delete(name);
    }
    return messages;
  }

  /** What was sent last has been executed. */
  succeeded(): void {
    for (const name of this.#doubtful) this.#known.add(name);
    this.#doubtful = new Set();
  }

  /** A statement that should be there is not. */
  forgotten(): void {
    this.#forgetful = true;
    this.#known.clear();
  }
}

const ofConnections = new WeakMap<ClientBase, PreparedStatements>();

/** `shared`: see the constructor. */
export function preparedOn(client: ClientBase, shared: boolean): PreparedStatements {
  const known = ofConnections.get(client) ?? new PreparedStatements(shared);
  ofConnections.set(client, known);
  return known;
}

/** The session has been made as new, and holds no statement. */
export function forgetPrepared(client: ClientBase): void {
  ofConnections.delete(client);
}
