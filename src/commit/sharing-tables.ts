/**
 * Which tables of a database share transactions, and how many of them one; pure: what has happened is told, with the time.
 *
 * A table shares while it is quick. When a shared transaction fails, nothing of it is stored, and each of its groups goes alone at
 * once; when two in a row were slow that had rows of a table, its next group goes alone. A single slow one says nothing: on a busy
 * machine any may be slow. The table's own transaction then decides: if it is slow, too, or stores less than it was given, the table is
 * kept apart, from `apartMinMs` on twice as long each time, up to `apartMaxMs`.
 *
 * Slow means several times as long as groups of the database usually take, so that a machine or a disk that is slow
 * for everybody blames nobody. Shared transactions then become smaller, and larger again when they are quick.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Limits } from '../config/limits.ts';
import type { Group, Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

/** What became of a group that went alone. */
export interface GroupResult {
  /** One for each member, in order. */
  readonly outcomes: readonly Outcome[];
  /** How long it had a connection, in ms; null: it never had one, which says nothing about its table. */
  readonly ms: number | null;
}

/** A table that does not share, or lately did not. */
interface Apart {
  /** Infinity: until it has gone alone once. */
  readonly untilMs: number;
  /** How long it was last kept apart. */
  readonly forMs: number;
}

const shares: Apart = { untilMs: 0, forMs: 0 };

/** What is known of one table. */
interface Shared {
  /** null: it shares. */
  apart: Apart | null;
  /** Its last shared transaction was slow. */
  wasSlow: boolean;
}

/** A new connection has to learn each table first. */
const tablesAtFirst = 16;
const tablesMin = 2;
/** This many failures in a row are no table's fault: an engine that cannot share is not tried again and again. */
const failuresMax = 4;
/** How many times the usual time is slow. */
const slowTimes = 4;
/** The factor by which one group moves the usual time, and the most of these steps for one transaction. */
const usualStep = 1.05;
const usualStepsMax = 14;

export class SharingTables {
  readonly #limits: Pick<Limits, 'sharedTablesMax' | 'sharedQuickMs' | 'apartMinMs' | 'apartMaxMs'>;
  readonly #tables = rememberedOf<Target, Shared>(() => ({ apart: null, wasSlow: false }));
  #most: number;
  /** What half of the groups take at most, in ms; adapts slowly. */
  #usualMs: number;
  /** Shared transactions that failed in a row, and until when there are none because of that. */
  #failures = 0;
  #pausedUntilMs = 0;

  constructor(limits: Pick<Limits, 'sharedTablesMax' | 'sharedQuickMs' | 'apartMinMs' | 'apartMaxMs'>) {
    this.#limits = limits;
    this.#most = Math.min(tablesAtFirst, limits.sharedTablesMax);
    this.#usualMs = limits.sharedQuickMs;
  }

  /** How many tables a shared transaction should have at most. */
  get most(): number {
    return this.#most;
  }

  /** What takes longer is slow. */
  get slowMs(): number {
    return Math.max(this.#limits.sharedQuickMs, slowTimes * this.#usualMs);
  }

  /** Whether groups of this table share now. */
  shares(target: Target, nowMs: number): boolean {
    if (this.#pausedUntilMs > nowMs) return false;
    const { apart } = this.#tables(target);
    return apart === null || apart.untilMs <= nowMs;
  }

  /** These groups shared a transaction, which had begun when `slowMs` was slow. */
  wentTogether(groups: readonly Group[], isStored: boolean, ms: number, slowMs: number, nowMs: number): void {
    const { apartMinMs, apartMaxMs, sharedTablesMax } = this.#limits;
    if (isStored) this.#learn(groups.length, ms);
    this.#failures = isStored ? 0 : this.#failures + 1;
    if (this.#failures >= failuresMax)
      this.#pausedUntilMs = nowMs + Math.min(apartMinMs * this.#failures, apartMaxMs);
    if (!isStored || ms > slowMs) this.#most = Math.max(tablesMin, groups.length >> 1);
    else if (groups.length === this.#most) this.#most = Math.min(2 * this.#most, sharedTablesMax);
    if (isStored) for (const { target } of groups) this.#suspect(target, ms > slowMs);
  }

  /** A shared transaction with rows of this table was slow, or quick. After the second slow one in a row its next group goes alone. */
  #suspect(target: Target, isSlow: boolean): void {
    const table = this.#tables(target);
    const isSecond = isSlow && table.wasSlow;
    table.wasSlow = isSlow && !isSecond;
    if (isSecond) table.apart = { untilMs: Infinity, forMs: (table.apart ?? shares).forMs };
  }

  wentAlone({ target }: Group, { outcomes, ms }: GroupResult, nowMs: number): void {
    // Others were in its way.
    if (ms === null) return;
    const { apartMinMs, apartMaxMs } = this.#limits;
    const table = this.#tables(target);
    const { untilMs, forMs } = table.apart ?? shares;
    const isSlow = ms > this.slowMs;
    this.#learn(1, ms);
    if (isSlow || outcomes.some(isRefused)) {
      const next = Math.min(Math.max(apartMinMs, 2 * forMs), apartMaxMs);
      table.apart = { untilMs: nowMs + next, forMs: next };
    } else if (untilMs === Infinity && forMs > 0) table.apart = { untilMs: nowMs, forMs };
    // It was quick, or has been for long.
    else if (untilMs === Infinity || untilMs + apartMaxMs <= nowMs) table.apart = null;
  }

  #learn(groups: number, ms: number): void {
    const factor = usualStep ** Math.min(groups, usualStepsMax);
    const next =
      ms > this.#usualMs ? Math.min(ms, this.#usualMs * factor) : Math.max(ms, this.#usualMs / factor);
    // A lower bound, so that the usual time never takes long to be learnt again.
    this.#usualMs = Math.max(1, next);
  }
}

/** Whether it is about the table or its rows; trouble of the engine says nothing about a table. */
function isRefused(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && !/^(engine_unavailable|deadline)$/.test(outcome.refusal.code);
}
