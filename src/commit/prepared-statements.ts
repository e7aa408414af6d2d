/**
 * The statements that a connection has prepared. Takes statements as text; returns the messages that prepare those which it lacks.
 *
 * A statement's name is made from its text, so that the same name never means two things, even if a pooler gives one session to several
 * connections. Their number per connection is bounded. A connection that others share through a pooler prepares nothing, nor does one that
 * turned out to have forgotten: each of their statements is unnamed, and parsed when it is executed.
 */
import { createHash } from 'node:crypto';
import { limits } from '../config/limits.ts';
import { closeMessage, parseMessage } from './wire-message.ts';

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
