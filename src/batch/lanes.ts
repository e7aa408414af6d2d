/**
 * The lanes of all tables. A lane exists while it has work; an idle table costs nothing.
 *
 * Takes Rows and gives receipts (see lane.ts); refuses with `lane_full`,
 * `draining`, `deadline`, `chain_broken`.
 * Owns the one timer of the batch room, which settles receipts past their deadline.
 */
import type { Outcome, Rows, Target } from '../flow.ts';
import type { TableName } from '../observations.ts';
import { Refused, refusal } from '../refusals.ts';
import { Lane } from './lane.ts';
import type { LaneOptions } from './lane.ts';

/** How often receipts are compared with their deadline, ms: the answer comes at most this much late. */
const sweepIntervalMs = 50;

export class Lanes {
  readonly #options: Omit<LaneOptions, 'onIdle'>;
  readonly #lanes = new Map<string, { readonly lane: Lane; readonly table: TableName }>();
  readonly #sweeper: NodeJS.Timeout;
  #draining = false;
  #whenIdle: (() => void)[] = [];

  constructor(options: Omit<LaneOptions, 'onIdle'>) {
    this.#options = options;
    this.#sweeper = setInterval(() => this.#sweep(), sweepIntervalMs);
    this.#sweeper.unref();
  }

  /** How many rows wait, for each table that has work. */
  *depths(): Iterable<{ readonly table: TableName; readonly rows: number }> {
    for (const { lane, table } of this.#lanes.values()) yield { table, rows: lane.depth };
  }

  /** Throws Refused when a request for this table would only wait in vain: asked before its body is read. */
  admit(target: Target): void {
    if (this.#draining) throw new Refused('draining');
    if (this.#lanes.get(laneKey(target))?.lane.isFull(0) === true) throw new Refused('lane_full');
  }

  /** Resolves exactly once, never rejects. */
  submit(rows: Rows): Promise<Outcome> {
    if (this.#draining) {
      if (rows.chain !== null) rows.chain.broken = true;
      return Promise.resolve({ kind: 'aborted', refusal: refusal('draining') });
    }
    const key = laneKey(rows.target);
    let open = this.#lanes.get(key);
    if (open === undefined) {
      open = { lane: new Lane({ ...this.#options, onIdle: () => this.#forget(key) }), table: rows.target };
      this.#lanes.set(key, open);
    }
    return open.lane.submit(rows);
  }

  /** Refuses what comes, commits what waits, and resolves when nothing is left. */
  drain(): Promise<void> {
    this.#draining = true;
    if (this.#lanes.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  /** Ends at once: what still waits is refused with `draining`. */
  close(): void {
    this.#draining = true;
    clearInterval(this.#sweeper);
    for (const { lane } of this.#lanes.values()) lane.abort('draining');
  }

  #forget(key: string): void {
    this.#lanes.delete(key);
    if (this.#lanes.size > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #sweep(): void {
    const now = this.#options.clock();
    for (const { lane } of this.#lanes.values()) lane.expire(now);
  }
}

/** A renamed table keeps its lane, and a new table of an old name gets its own. */
function laneKey(target: Target): string {
  return `${target.oid}/${target.database}`;
}
