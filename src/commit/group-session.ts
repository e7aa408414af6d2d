/**
 * A connection that is lent to groups for one transaction, and the session in which they are stored. Takes the groups and their connection; returns
 * both, or the outcome of all members if there is none. After the end it gives the connection back, or closes it if it must not be lent again.
 */
import type { PoolClient } from 'pg';
import type { Limits } from '../config/limits.ts';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { LoginRefused } from '../engine/owner-logins.ts';
import type { StageContext } from '../observe/context.ts';
import type { Group, Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { connectionOf } from './commit-connection.ts';
import type { CommitPools } from './commit-pools.ts';
import { aborted, unusable } from './interpret-reply.ts';
import { CommitSession } from './session.ts';
import type { SessionOptions, TransactionEnd } from './session.ts';
import { askOn, fateOf } from './transaction-status.ts';

export interface CommitContext extends StageContext {
  readonly pools: CommitPools;
}

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

export class GroupSession implements SessionOptions {
  readonly client: PoolClient;
  readonly clock: () => number;
  readonly deadline: number;
  readonly shared: boolean;
  readonly statementTimeoutMs: number | null;
  readonly session: CommitSession;
  /** Code of a table that it was not meant for may have run in the session, which is then closed; until the work on it has ended, nobody knows. */
  isDoubtful = true;
  readonly #context: CommitContext;
  readonly #groups: readonly Group[];
  readonly #target: Target;
  readonly #startedMs: number;
  #isLent = true;

  constructor(
    context: CommitContext,
    groups: readonly Group[],
    target: Target,
    client: PoolClient,
    startedMs: number,
  ) {
    const { pools, clock, limits } = context;
    const ackTimeoutMs = groups.reduce((most, group) => Math.max(most, ackTimeoutOf(group)), 0);
    this.#context = context;
    this.#groups = groups;
    this.#target = target;
    this.#startedMs = startedMs;
    this.client = client;
    this.clock = clock;
    this.deadline = startedMs + ackTimeoutMs;
    this.shared = pools.isShared(client);
    this.statementTimeoutMs = statementTimeoutMs(ackTimeoutMs, this.shared, limits);
    this.session = new CommitSession(this);
  }

  /** Since the connection was asked for. */
  get seconds(): number {
    return (this.clock() - this.#startedMs) / 1_000;
  }

  /** Only once: the connection may have been given up before. */
  giveBack(): void {
    const { pools } = this.#context;
    // A connection in an unknown state is not lent again.
    if (this.#isLent)
      if (this.session.usable && !this.isDoubtful) pools.giveBack(this.client);
      else this.client.release(true);
    this.#isLent = false;
  }

  readOnly(): void {
    this.#context.pools.readOnly(this.#target);
  }

  async fateOf(xid: string): Promise<TransactionEnd | null> {
    // Makes room for the connection on which the question is asked: this one is lost.
    this.giveBack();
    const { incarnation } = connectionOf(this.client);
    const lost = { ...this.#target, xid, incarnation };
    const bounds = { leftMs: () => this.session.leftMs, random: Math.random };
    return this.#told(await fateOf(lost, this.#context.pools, bounds));
  }

  async fateHere(xid: string): Promise<TransactionEnd | null> {
    const asked = { ...this.#target, xid };
    const bounds = { leftMs: () => this.session.leftMs };
    const fate = await askOn(this.client, asked, bounds).catch(() => null);
    return this.#told(fate === 'ask again' ? null : fate);
  }

  #told(fate: TransactionEnd | null): TransactionEnd | null {
    for (const { target: table, rows } of this.#groups)
      this.#context.observe({ kind: 'group.settled', table, rows, fate: fate ?? 'unknown' });
    return fate;
  }
}

/** Why there is no connection for rows. */
export function noConnection(error: unknown): Refusal {
  return error instanceof LoginRefused ? unusable(error.message) : refusal('engine_unavailable');
}

/** null: the connection's own setting is enough, because the group waits no longer than a single request. */
export function statementTimeoutMs(
  ackTimeoutMs: number,
  shared: boolean,
  { ackDeadlineMs, commitStatementTimeoutMs }: Pick<Limits, 'ackDeadlineMs' | 'commitStatementTimeoutMs'>,
): number | null {
  if (ackTimeoutMs <= ackDeadlineMs) return shared ? commitStatementTimeoutMs : null;
  return ackTimeoutMs - (ackDeadlineMs - commitStatementTimeoutMs);
}

/** How long the senders of a group wait, in ms. */
export function ackTimeoutOf({ members }: Group): number {
  return members.reduce((most, rows) => Math.max(most, rows.ackTimeoutMs), 0);
}
