/**
 * What is done with requests from the disk that the database has not stored. A group that it refuses is cut in halves until the request at fault is
 * alone; that one is put where refused requests are kept, in the transaction that moves the position past it. If the answer was lost, the position
 * tells what became of it. Takes the queue of a table, and changes it; returns how it goes on.
 */
import type { Catalog } from '../catalog/catalog.ts';
import { unusableTarget } from '../catalog/target.ts';
import type { CommitPools } from '../commit/commit-pools.ts';
import type { HandedOver } from '../commit/hand-over.ts';
import { passWith, readArrived } from '../commit/hand-over.ts';
import { limits } from '../config/limits.ts';
import type { Engine } from '../engine/engine.ts';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { StageContext } from '../observe/context.ts';
import type { TableName } from '../observe/observations.ts';
import { keepSpooled } from '../reject/spool-refusals.ts';
import type { Target } from '../types/target.ts';
import { apart, behind, decodeEach, decodeRequest, requestsOf, undecoded } from './kept-request.ts';
import type { KeptHead, SpooledMember } from './kept-request.ts';

export interface FailureStages extends Omit<StageContext, 'limits'> {
  readonly database: string;
  readonly engine: Pick<Engine, 'unavailable'>;
  readonly catalog: Pick<Catalog, 'current' | 'isWatching' | 'refresh'>;
  readonly pools: CommitPools;
}

/** Requests that the database takes too long for: tried in ever smaller groups, one per pass, so that other tables continue. */
export interface SlowTables {
  /** The first of them. */
  readonly first: bigint;
  /** Since when it is tried alone, by a monotonic clock, ms. */
  readonly sinceMs: number;
  readonly together: number;
}

/** Requests of one table that are being stored. */
export interface HandOverQueue {
  readonly spool: string;
  readonly oid: number;
  readonly name: TableName;
  /** The positions of the spool, by oid. */
  readonly positions: Map<number, bigint>;
  /** By oid. */
  readonly slow: Map<number, SlowTables>;
  members: SpooledMember[];
  /** Most requests that are tried together: some of them are refused. */
  together: number;
  /** Why it stops. */
  reason: string;
}

/** `arrived`: all that were handed over are stored; `on`: the first of the queue are tried next; `stop`: not in this pass. */
export type Step = 'arrived' | 'on' | 'stop';

export class HandOverFailures {
  readonly #stages: FailureStages;
  readonly #queue: HandOverQueue;
  #changed = 0;
  #unmoved = 0;

  constructor(stages: FailureStages, queue: HandOverQueue) {
    this.#stages = stages;
    this.#queue = queue;
  }

  /** Requests have arrived. */
  forget(): void {
    this.#changed = 0;
    this.#unmoved = 0;
  }

  /** The catalog has no table, or one that cannot be used. */
  withoutTable(target: Target | null): Step | Promise<Step> {
    const { database, engine, catalog } = this.#stages;
    if (target !== null) return this.#stop(refusal('table_unusable'));
    if (engine.unavailable !== null || !catalog.isWatching(database))
      return this.#stop(refusal('engine_unavailable'));
    // The catalog was read, and does not have it.
    return this.keepFirst(null, refusal('table_gone'));
  }

  /** `count`: how many members were handed over; `last`: the last request of these. */
  async after(
    end: Exclude<HandedOver, { readonly kind: 'committed' }>,
    target: Target,
    count: number,
    last: bigint,
  ): Promise<Step> {
    switch (end.kind) {
      case 'unknown':
      case 'moved':
        return this.#ask(end.kind, target, count, last);
      case 'changed':
        await this.#stages.catalog.refresh(target);
        this.#changed += 1;
        return this.#changed > limits.spoolChangedMax ? this.#stop(refusal('table_changed')) : 'on';
      case 'away':
        return this.#stop(end.refusal);
      case 'slow':
        return this.#tooSlow(count, target, end.refusal);
      case 'refused':
        return this.#takeApart(count, target) ? 'on' : this.keepFirst(target, end.refusal);
    }
  }

  /** Puts the first request where refused ones are kept. */
  async keepFirst(target: Target | null, why: Refusal): Promise<Step> {
    const { members, spool, name, oid, positions, slow } = this.#queue;
    const [member] = members.splice(0, 1);
    if (member === undefined) return 'on';
    const [first = member, ...others] = apart(member);
    members.unshift(...others.map(undecoded));
    const passage = { spool, first: this.#position + 1n, last: first.last };
    const request = decodeRequest(first.payload);
    const head = request?.head ?? unreadable;
    const kept = keepSpooled(
      {
        ...head,
        // Of a table that no longer exists only the name is known.
        target: target ?? unusableTarget({ ...name, oid }),
        refusal: why,
        door: 'spool',
        authenticated: true,
        body: request?.body ?? first.payload,
      },
      limits,
    );
    const { database, pools, observe } = this.#stages;
    await passWith(pools, { database, oid }, passage, kept, limits.ackDeadlineMs);
    positions.set(oid, first.last);
    slow.delete(oid);
    if (why.code === 'delivery_differs') observe({ kind: 'deliveries.differ', table: name, deliveries: 1 });
    observe({ kind: 'spool.refused', table: name, code: why.code, reason: why.message });
    return 'on';
  }

  /** Makes the next group half of the first `count` members. False: that is one request. */
  #takeApart(count: number, target: Target): boolean {
    const members = this.#queue.members.slice(0, count);
    const requests = members.flatMap((member) =>
      requestsOf(member) === 1 ? [member] : decodeEach(member, target),
    );
    this.#queue.members.splice(0, count, ...requests);
    this.#queue.together = Math.ceil(requests.length / 2);
    return requests.length > 1;
  }

  /** The position tells what became of it. */
  async #ask(kind: 'unknown' | 'moved', target: Target, count: number, last: bigint): Promise<Step> {
    const before = this.#position;
    const { database, pools } = this.#stages;
    const asked = await readArrived(pools, database, this.#queue.spool, limits.catalogWaitMs);
    const position = asked.positions.get(this.#queue.oid) ?? 0n;
    if (position === last) return 'arrived';
    if (position > before) {
      // Another process hands over the same requests.
      this.#queue.positions.set(this.#queue.oid, position);
      this.#queue.members = this.#queue.members.flatMap((member) =>
        member.first > position ? [member] : behind(member, position).map(undecoded),
      );
      return 'on';
    }
    if (position < before)
      return this.#stop(refusal('internal', 'the position in the database has gone back'));
    this.#unmoved += 1;
    if (kind === 'unknown' || this.#unmoved === 1)
      return this.#unmoved > limits.spoolChangedMax ? this.#tooSlow(count, target, lostEachTime) : 'on';
    // Nothing else has moved it: code of the table has raised the error.
    return this.#takeApart(count, target) ? 'on' : this.keepFirst(target, refusal('row_refused'));
  }

  /** Once the request is alone, it is skipped after some time: otherwise nothing of its table would ever arrive after it. */
  #tooSlow(count: number, target: Target, why: Refusal): Step | Promise<Step> {
    const isAlone = !this.#takeApart(count, target);
    const first = this.#queue.members[0]?.first ?? 0n;
    const known = this.#queue.slow.get(this.#queue.oid);
    const now = this.#stages.clock();
    const sinceMs = isAlone && known?.first === first && known.together === 1 ? known.sinceMs : now;
    if (isAlone && now - sinceMs >= limits.spoolSlowMs) return this.keepFirst(target, why);
    this.#queue.slow.set(this.#queue.oid, { first, sinceMs, together: Math.ceil(this.#queue.together / 4) });
    return this.#stop(why);
  }

  #stop({ message, engineError = message }: Refusal): Step {
    this.#queue.reason = engineError;
    return 'stop';
  }

  get #position(): bigint {
    return this.#queue.positions.get(this.#queue.oid) ?? 0n;
  }
}

const lostEachTime = refusal('row_refused', 'the connection was lost each time that it was being stored');

const unreadable: KeptHead = {
  method: '',
  requestTarget: '',
  rawHeaders: [],
  arrivedAtMs: 0,
  remoteAddress: '',
};
