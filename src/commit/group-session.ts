/**
 * The session that is lent for one group, or for those that share a transaction, and given back, or closed if it must not be lent again. If its
 * connection is lost, another one is asked for the fate of its transaction. If there is no connection, all members have that outcome.
 */
import type { PoolClient } from 'pg';
import { LoginRefused } from '../engine/owner-logins.ts';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { Group, Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { connectionOf } from './commit-connection.ts';
import { aborted, unusable } from './interpret-reply.ts';
import { CommitSession } from './session.ts';
import type { CommitContext } from './session.ts';
import { askOn, fateOf } from './transaction-status.ts';
import type { TransactionEnd } from './transaction-status.ts';

/** `target`: of the groups, whose tables wait for the disk in the same way. If there is no connection: the outcome of all members, which is reported. */
export async function lendSession(
  context: CommitContext,
  groups: readonly Group[],
  target: Target,
  connecting: Promise<PoolClient>,
): Promise<GroupSession | Outcome> {
  const startedMs = context.clock();
  let client: PoolClient;
  try {
    client = await connecting;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    for (const { target: table, rows } of groups)
      context.observe({ kind: 'group.aborted', table, rows, sqlstate: '08001', reason });
    return aborted(noConnection(error));
  }
  try {
    return new GroupSession(context, groups, target, client, startedMs);
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/** Lent to groups. */
export class GroupSession extends CommitSession {
  /** Code of a table that it was not meant for may have run in the session, which is then closed; until the work on it has ended, nobody knows. */
  isDoubtful = true;
  readonly #groups: readonly Group[];
  readonly #startedMs: number;
  #isLent = true;

  constructor(
    context: CommitContext,
    groups: readonly Group[],
    target: Target,
    client: PoolClient,
    startedMs: number,
  ) {
    super(context, target, client, startedMs, Math.max(...groups.map(ackTimeoutOf)));
    this.#groups = groups;
    this.#startedMs = startedMs;
  }

  /** Since the connection was asked for. */
  get seconds(): number {
    return (this.context.clock() - this.#startedMs) / 1_000;
  }

  /** Only once: the connection may have been given up before. */
  giveBack(): void {
    const { pools } = this.context;
    // A connection in an unknown state is not lent again.
    if (this.#isLent)
      if (this.usable && !this.isDoubtful) pools.giveBack(this.client);
      else this.client.release(true);
    this.#isLent = false;
  }

  protected override async fateOf(xid: string): Promise<TransactionEnd | null> {
    // Makes room for the connection on which the question is asked: this one is lost.
    this.giveBack();
    const { incarnation } = connectionOf(this.client);
    const lost = { ...this.target, xid, incarnation };
    const bounds = { leftMs: () => this.leftMs, random: Math.random };
    return this.#told(await fateOf(lost, this.context.pools, bounds));
  }

  protected override async fateHere(xid: string): Promise<TransactionEnd | null> {
    const asked = { ...this.target, xid };
    const bounds = { leftMs: () => this.leftMs };
    const fate = await askOn(this.client, asked, bounds).catch(() => null);
    return this.#told(fate === 'ask again' ? null : fate);
  }

  #told(fate: TransactionEnd | null): TransactionEnd | null {
    for (const { target: table, rows } of this.#groups)
      this.context.observe({ kind: 'group.settled', table, rows, fate: fate ?? 'unknown' });
    return fate;
  }
}

/** Why there is no connection for rows. */
export function noConnection(error: unknown): Refusal {
  return error instanceof LoginRefused ? unusable(error.message) : refusal('engine_unavailable');
}

/** How long the senders of a group wait, in ms. */
export function ackTimeoutOf({ members }: Group): number {
  return members.reduce((most, rows) => Math.max(most, rows.ackTimeoutMs), 0);
}
