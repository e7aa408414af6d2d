/**
 * Makes the function of a table's owner when a group has found it missing or unfit. Touches the group's own
 * connection. At most once per group, and only if the engine's error suggests it: the owner's code may fail with the
 * same SQLSTATEs.
 */
import type { ClientBase } from 'pg';
import type { Target } from '../types/target.ts';
import { executorCheck, executorUnfit, makeExecutorCount, makeExecutorSql } from '../catalog/executor.ts';
import { failedHere } from './judge.ts';
import type { Failed, Reply } from './round-trip.ts';
import { queryMessage } from './wire-message.ts';

type Send = (messages: Iterable<Buffer>, expected: readonly number[]) => Promise<Reply[]>;

/** No such function, table or schema, no right to it, or the check before it. */
const suspicious = new Set(['42883', '42P01', '3F000', '42501', '22P02', 'HG001']);

/** Of several Headgates that make it at one time, one succeeds. */
const attemptsMax = 3;

/** The functions that are being made, by database and owner: whoever else misses one waits, because making it again takes it from the first. */
const making = new Map<string, Promise<unknown>>();

/** Owners whose function a connection has checked. */
const verified = new WeakMap<ClientBase, Set<number>>();

export class Executors {
  readonly #client: ClientBase;
  readonly #role: string;
  readonly #send: Send;
  #looked = false;

  constructor(client: ClientBase, role: string, send: Send) {
    this.#client = client;
    this.#role = role;
    this.#send = send;
  }

  /**
   * What to do about a statement that failed: `again`, because the function exists now; another failure, because it cannot
   * be made; null: the function was not the cause.
   */
  async mend(target: Target, { sqlstate }: Failed): Promise<'again' | Failed | null> {
    if (target.code.as !== 'owner' || !suspicious.has(sqlstate) || this.#looked) return null;
    this.#looked = true;
    const wasThere = this.isVerified(target);
    verified.get(this.#client)?.delete(target.code.owner);
    // Another group may have made it since.
    if (await this.#isFit(target)) return wasThere ? null : 'again';
    const key = `${target.code.owner}/${target.database}`;
    const made = (making.get(key) ?? Promise.resolve()).then(() => this.#make(target));
    making.set(key, made);
    try {
      return await made;
    } finally {
      if (making.get(key) === made) making.delete(key);
    }
  }

  async #make(target: Target): Promise<'again' | Failed | null> {
    if (await this.#isFit(target)) return 'again';
    let failed: Failed | null = null;
    for (let tries = 1; tries <= attemptsMax; tries++) {
      const sql = makeExecutorSql(this.#role, target.code);
      const [reply] = await this.#send([queryMessage(sql)], [makeExecutorCount]);
      if (reply?.kind === 'lost') return null;
      failed = reply?.kind === 'failed' ? reply : null;
      if (await this.#isFit(target)) return 'again';
    }
    return failed === null ? null : failedHere(executorUnfit, failed.message);
  }

  /** Whether this connection has seen that the function is as it should be. */
  isVerified({ code }: Target): boolean {
    return verified.get(this.#client)?.has(code.owner) === true;
  }

  /** A transaction that has checked it has succeeded. */
  verify({ code }: Target): void {
    const owners = verified.get(this.#client) ?? new Set();
    verified.set(this.#client, owners.add(code.owner));
  }

  async #isFit({ code }: Target): Promise<boolean> {
    const [reply] = await this.#send([queryMessage(executorCheck(this.#role, code))], [1]);
    return reply?.kind === 'done';
  }
}
