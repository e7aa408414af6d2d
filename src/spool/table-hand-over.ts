/**
 * Moves some requests of one table from the disk into the database, in their order. Takes requests as they were kept, and
 * decodes them while those before them are being stored; hands them over in groups, each with the position that it moves
 * (commit/hand-over.ts). What was not stored is tried again in another way (hand-over-failure.ts). Returns whether all of them have
 * arrived, and if not why.
 */
import type { SpoolCommit } from '../commit/hand-over.ts';
import { limits } from '../config/limits.ts';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { TableName } from '../observe/observations.ts';
import type { Group, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { HandOverFailures } from './hand-over-failure.ts';
import type { FailureStages, HandOverQueue, SlowTables, Step } from './hand-over-failure.ts';
import { behind, decodeEach, decodeRecord, requestsOf } from './kept-request.ts';
import type { Sealed, SpooledMember, SpooledTable } from './kept-request.ts';
import type { ReadPosition } from './spool.ts';
import type { Throttle } from './throttle.ts';

/** What the hand-over of all tables of a database works with. */
export interface HandOverStages extends FailureStages {
  readonly commit: Pick<SpoolCommit, 'handOver'>;
  readonly throttle: Pick<Throttle, 'groupRows' | 'rest' | 'record'>;
}

/** How much of all tables is in memory, in bytes. */
export interface HandOverMemory {
  bytes: number;
}

/** What is known of a spool while it is handed over. */
export interface HandOverInProgress {
  readonly spool: { readonly id: string };
  /** The positions of the spool, by oid; moved after each COMMIT. */
  readonly positions: Map<number, bigint>;
  /** By oid; kept from one pass to the next. */
  readonly slow: Map<number, SlowTables>;
}

export class TableHandOver {
  readonly oid: number;
  readonly name: TableName;
  /** The place before the first request that has not arrived, if there is one. */
  began: ReadPosition | null = null;
  readonly #stages: HandOverStages;
  readonly #memory: HandOverMemory;
  /** Requests that have come in and are not being stored yet, with the place before them. */
  #coming: { members: SpooledMember[]; requests: number; bytes: number; began: ReadPosition } | null = null;
  /** The table that they are decoded for. */
  #target: Target | null = null;
  /** Whether the requests that are being stored arrive. */
  #storing: Promise<boolean> = Promise.resolve(true);
  /** The requests that are being stored. */
  readonly #queue: HandOverQueue;
  readonly #failures: HandOverFailures;

  constructor(
    stages: HandOverStages,
    { spool, positions, slow }: HandOverInProgress,
    { database, schema, table, oid }: SpooledTable,
    memory: HandOverMemory,
  ) {
    this.#stages = stages;
    this.oid = oid;
    this.name = { database, schema, table };
    this.#memory = memory;
    const together = slow.get(oid)?.together ?? Infinity;
    this.#queue = {
      spool: spool.id,
      oid,
      name: this.name,
      positions,
      slow,
      members: [],
      together,
      reason: '',
    };
    this.#failures = new HandOverFailures(stages, this.#queue);
  }

  /** Why it does not go on. */
  get reason(): string {
    return this.#queue.reason;
  }

  /** `began`: the place before it. */
  push(record: Sealed, began: ReadPosition): void {
    if (this.#coming === null) {
      this.#coming = { members: [], requests: 0, bytes: 0, began };
      this.#target = this.#stages.catalog.current(this.#stages.database, this.oid);
    }
    const coming = this.#coming;
    for (const one of behind(record, this.#position)) coming.members.push(...decodeRecord(one, this.#target));
    coming.requests += requestsOf(record);
    coming.bytes += record.payload.length;
    this.#memory.bytes += record.payload.length;
  }

  get isFull(): boolean {
    if (this.#coming === null) return false;
    const rows = this.#coming.requests + limits.spoolSealedRequestsMax;
    return rows > this.#stages.throttle.groupRows() || this.#coming.bytes >= limits.groupBytesMax;
  }

  /** Begins to store what has come in once the previous requests have arrived. False: they have not; all is dropped here, to be read again. */
  async next(): Promise<boolean> {
    const coming = this.#coming;
    this.#coming = null;
    const isOn = await this.#storing;
    if (coming === null) return isOn;
    const forget = () => void (this.#memory.bytes -= coming.bytes);
    if (isOn) this.#storing = this.#store(coming.members, coming.began).finally(forget);
    else forget();
    return isOn;
  }

  /** Whether all that has come in has arrived. */
  async flush(): Promise<boolean> {
    return (await this.next()) && this.#storing;
  }

  async #store(members: SpooledMember[], began: ReadPosition): Promise<boolean> {
    const queue = this.#queue;
    queue.members = members;
    let step: Step = 'on';
    try {
      while (queue.members.length > 0 && step !== 'stop') step = await this.#step();
    } catch (error) {
      queue.reason = error instanceof Error ? error.message : String(error);
      step = 'stop';
    }
    if (step !== 'stop') return true;
    this.began = began;
    queue.members = [];
    return false;
  }

  get #position(): bigint {
    return this.#queue.positions.get(this.oid) ?? 0n;
  }

  /** Hands over the first requests that fit one transaction. */
  async #step(): Promise<Step> {
    const queue = this.#queue;
    const { catalog, database, commit, throttle, clock } = this.#stages;
    const target = catalog.current(database, this.oid);
    if (target === null || target.check === 'unusable') return this.#failures.withoutTable(target);
    // The table may have changed by now.
    if (queue.members.some((member) => member.target !== target))
      queue.members = queue.members.flatMap((member) => decodeRecord(member, target));
    const [next] = queue.members;
    if (next !== undefined && requestsOf(next) > queue.together)
      queue.members.splice(0, 1, ...decodeEach(next, target));
    const { group, refused } = this.#group(target);
    if (group === null) return this.#failures.keepFirst(target, refused ?? refusal('internal'));
    const count = group.members.length;
    const last = queue.members[count - 1]?.last ?? 0n;
    await throttle.rest(target);
    const startedMs = clock();
    const end = await commit.handOver(group, { spool: queue.spool, first: this.#position + 1n, last });
    throttle.record(group, clock() - startedMs);
    const step = end.kind === 'committed' ? 'arrived' : await this.#failures.after(end, target, count, last);
    if (step === 'arrived') this.#arrived(count, group.rows, last);
    return step;
  }

  #arrived(members: number, rows: number, last: bigint): void {
    const queue = this.#queue;
    queue.positions.set(this.oid, last);
    const requests = queue.members.splice(0, members).reduce((sum, member) => sum + requestsOf(member), 0);
    // The one at fault may be among as many of the next.
    queue.together *= 2;
    queue.slow.delete(this.oid);
    this.#failures.forget();
    this.#stages.observe({ kind: 'spool.arrived', table: this.name, requests, rows });
  }

  /** The first requests that fit one transaction; `group` null: the first one is refused. */
  #group(target: Target): { readonly group: Group | null; readonly refused: Refusal | null } {
    const members: Rows[] = [];
    let refused: Refusal | null = null;
    let [requests, rows, bytes] = [0, 0, 0];
    const rowsMax = this.#stages.throttle.groupRows();
    for (const member of this.#queue.members) {
      const { made } = member;
      requests += requestsOf(member);
      if (requests > this.#queue.together || made === null) break;
      if ('code' in made) {
        refused = made;
        break;
      }
      const fits = rows + made.count <= rowsMax && bytes + made.bytes <= limits.groupBytesMax;
      if (members.length > 0 && !fits) break;
      members.push(made);
      rows += made.count;
      bytes += made.bytes;
    }
    return { group: members.length === 0 ? null : { target, members, rows, bytes }, refused };
  }
}
