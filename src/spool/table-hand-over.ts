/**
 * Moves some requests of one table from the disk into the database, in their order. Takes requests as they were kept, and
 * decodes them while those before them are being stored; hands them over in groups, each with the position that it moves. A group
 * that the database refuses is cut in halves until the request at fault is alone; that one is put where refused requests are kept,
 * in the transaction that moves the position past it. Returns whether all of them have arrived, and if not why.
 */
import type { Catalog } from '../catalog/catalog.ts';
import type { CommitPools } from '../commit/commit-pools.ts';
import { passWith, readArrived } from '../commit/hand-over.ts';
import { decodeWholes } from '../decode/decode.ts';
import { decodeRequest as decodeAtOnce } from '../decode/decode-slices.ts';
import type { Engine } from '../engine/engine.ts';
import type { StageContext } from '../observe/context.ts';
import { keepSpooled } from '../reject/spool-refusals.ts';
import type { Throttle } from './throttle.ts';
import { unusableTarget } from '../catalog/target.ts';
import type { Group, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { TableName } from '../observe/observations.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { apart, bodySpans, decodeRequest, requestsOf } from './kept-request.ts';
import type { KeptHead, Sealed, SpooledTable } from './kept-request.ts';
import type { ReadPosition } from './spool.ts';

/** What the hand-over of all tables of a database works with. */
export interface HandOverStages extends Omit<StageContext, 'limits'> {
  readonly database: string;
  readonly engine: Pick<Engine, 'unavailable'>;
  readonly catalog: Pick<Catalog, 'current' | 'isWatching' | 'refresh'>;
  readonly pools: CommitPools;
  /** The commit stage, which may rest in between. */
  readonly commit: Pick<Throttle, 'groupRows' | 'handOver'>;
}

interface SpooledMember extends Sealed {
  /** The rows for `target`, never a refusal for several requests; null: not decoded, because the table was not known. */
  readonly made: Rows | Refusal | null;
  readonly target: Target | null;
}

/** How much of all tables is in memory, in bytes. */
export interface HandOverMemory {
  bytes: number;
}

/** Requests that the database takes too long for: tried in ever smaller groups, one per pass, so that other tables continue. */
export interface SlowTables {
  /** The first of them. */
  readonly first: bigint;
  /** Since when it is tried alone, by a monotonic clock, ms. */
  readonly sinceMs: number;
  readonly together: number;
}

/** What is known of a spool while it is handed over. */
export interface HandOverInProgress {
  readonly spool: { readonly id: string };
  /** The positions of the spool, by oid; moved as requests arrive. */
  readonly positions: Map<number, bigint>;
  /** By oid; kept from one pass to the next. */
  readonly slow: Map<number, SlowTables>;
}

/** What to try next, and whether more than before may be tried. */
type Step = 'on' | 'smaller' | 'again' | 'stop';

export class TableHandOver {
  readonly oid: number;
  readonly name: TableName;
  reason = '';
  /** The place before the first request that has not arrived, if there is one. */
  began: ReadPosition | null = null;
  readonly #stages: HandOverStages;
  readonly #spool: string;
  readonly #positions: Map<number, bigint>;
  readonly #held: HandOverMemory;
  /** Requests that have come in and are not being stored yet, with the place before them. */
  #coming: { members: SpooledMember[]; requests: number; bytes: number; began: ReadPosition } | null = null;
  /** The table that they are decoded for. */
  #target: Target | null = null;
  /** Whether the requests that are being stored arrive. */
  #storing: Promise<boolean> = Promise.resolve(true);
  #members: SpooledMember[] = [];
  /** Most requests that are tried together: some of them are refused. */
  #together: number;
  #changed = 0;
  #unmoved = 0;
  readonly #slow: Map<number, SlowTables>;

  constructor(
    stages: HandOverStages,
    { spool, positions, slow }: HandOverInProgress,
    table: SpooledTable,
    held: HandOverMemory,
  ) {
    this.#stages = stages;
    this.#spool = spool.id;
    this.#positions = positions;
    this.oid = table.oid;
    this.name = { database: table.database, schema: table.schema, table: table.table };
    this.#held = held;
    this.#slow = slow;
    this.#together = slow.get(table.oid)?.together ?? Infinity;
  }

  push(record: Sealed, began: ReadPosition): void {
    if (this.#coming === null) {
      this.#coming = { members: [], requests: 0, bytes: 0, began };
      this.#target = this.#stages.catalog.current(this.#stages.database, this.oid);
    }
    const coming = this.#coming;
    const bytes = record.payload.length;
    for (const one of this.#behind(record)) coming.members.push(...this.#decoded(one, this.#target));
    coming.requests += requestsOf(record);
    coming.bytes += bytes;
    this.#held.bytes += bytes;
  }

  get isFull(): boolean {
    if (this.#coming === null) return false;
    const rows = this.#coming.requests + limits.spoolSealedRequestsMax;
    return rows > this.#stages.commit.groupRows() || this.#coming.bytes >= limits.groupBytesMax;
  }

  /** Begins to store what has come in once the previous requests have arrived. False: they have not; all is dropped here, to be read again. */
  async next(): Promise<boolean> {
    const coming = this.#coming;
    this.#coming = null;
    const isOn = await this.#storing;
    if (coming === null) return isOn;
    if (isOn)
      this.#storing = this.#store(coming.members, coming.began).finally(() => this.#forget(coming.bytes));
    else this.#forget(coming.bytes);
    return isOn;
  }

  /** Whether all that has come in has arrived. */
  async flush(): Promise<boolean> {
    return (await this.next()) && this.#storing;
  }

  #forget(bytes: number): void {
    this.#held.bytes -= bytes;
  }

  async #store(members: SpooledMember[], began: ReadPosition): Promise<boolean> {
    this.#members = members;
    try {
      while (this.#members.length > 0) {
        const step = await this.#step();
        if (step === 'stop') return this.#failed(began);
      }
      return true;
    } catch (error) {
      this.reason = error instanceof Error ? error.message : String(error);
      return this.#failed(began);
    }
  }

  #failed(began: ReadPosition): false {
    this.began = began;
    this.#members = [];
    return false;
  }

  get #position(): bigint {
    return this.#positions.get(this.oid) ?? 0n;
  }

  async #step(): Promise<Step> {
    const target = this.#stages.catalog.current(this.#stages.database, this.oid);
    if (target === null) {
      const { database, engine, catalog } = this.#stages;
      if (engine.unavailable !== null || !catalog.isWatching(database))
        return this.#stop(refusal('engine_unavailable'));
      // The catalog was read, and does not have it.
      return this.#keepFirst(null, refusal('table_gone'));
    }
    if (target.check === 'unusable') return this.#stop(refusal('table_unusable'));
    // The table may have changed by now.
    if (this.#members.some((member) => member.target !== target))
      this.#members = this.#members.flatMap((member) => this.#decoded(member, target));
    const [next] = this.#members;
    if (next !== undefined && requestsOf(next) > this.#together)
      this.#members.splice(0, 1, ...this.#oneByOne(next, target));
    const { group, count, refused } = this.#group(target);
    if (group === null) return this.#keepFirst(target, refused ?? refusal('internal'));
    const last = this.#members[count - 1]?.last ?? 0n;
    const passage = { spool: this.#spool, first: this.#position + 1n, last };
    const end = await this.#stages.commit.handOver(group, passage);
    switch (end.kind) {
      case 'committed':
        return this.#arrived(count, group.rows, last);
      case 'unknown':
      case 'moved':
        return this.#ask(end.kind, count, group.rows, last, target);
      case 'changed':
        await this.#stages.catalog.refresh(target);
        this.#changed += 1;
        return this.#changed > limits.spoolChangedMax ? this.#stop(refusal('table_changed')) : 'again';
      case 'away':
        return this.#stop(end.refusal);
      case 'slow':
        return this.#tooSlow(count, target, end.refusal);
      case 'refused':
        return this.#takeApart(count, target) ? 'smaller' : this.#keepFirst(target, end.refusal);
    }
  }

  /** The first requests that fit one transaction; `group` null: the first one is refused. */
  #group(target: Target): {
    readonly group: Group | null;
    readonly count: number;
    readonly refused: Refusal | null;
  } {
    const members: Rows[] = [];
    let refused: Refusal | null = null;
    let [requests, rows, bytes] = [0, 0, 0];
    for (const member of this.#members) {
      const { made } = member;
      requests += requestsOf(member);
      if (requests > this.#together || made === null) break;
      if ('code' in made) {
        refused = made;
        break;
      }
      const fits =
        rows + made.count <= this.#stages.commit.groupRows() && bytes + made.bytes <= limits.groupBytesMax;
      if (members.length > 0 && !fits) break;
      members.push(made);
      rows += made.count;
      bytes += made.bytes;
    }
    const group = members.length === 0 ? null : { target, members, rows, bytes };
    return { group, count: members.length, refused };
  }

  /** The part of a record that has not arrived. */
  #behind(record: Sealed): Sealed[] {
    const position = this.#position;
    return record.first > position ? [record] : apart(record).filter(({ first }) => first > position);
  }

  /** Together if possible, otherwise one by one. */
  #decoded(record: Sealed, target: Target | null): SpooledMember[] {
    const { first, last, payload } = record;
    if (target === null) return [undecoded(record)];
    const made = decodeWholes(target, payload, bodySpans(payload, requestsOf(record)));
    if (made !== null) return [{ first, last, payload, made, target }];
    return this.#oneByOne(record, target);
  }

  /** Makes the next group half of the first `count` members. False: that is one request. */
  #takeApart(count: number, target: Target): boolean {
    const members = this.#members.slice(0, count);
    const requests = members.flatMap((member) =>
      requestsOf(member) === 1 ? [member] : this.#oneByOne(member, target),
    );
    this.#members.splice(0, count, ...requests);
    this.#together = Math.ceil(requests.length / 2);
    return requests.length > 1;
  }

  #oneByOne(record: Sealed, target: Target): SpooledMember[] {
    return apart(record).map((one) => ({ ...one, made: this.#rowsOf(target, one.payload), target }));
  }

  #rowsOf(target: Target, payload: Buffer): Rows | Refusal {
    const request = decodeRequest(payload);
    if (request === null) return refusal('internal', 'it was kept by another version of Headgate');
    try {
      const { requestTarget, ...others } = request.head;
      const { body } = request;
      return decodeAtOnce(target, { ...others, target: requestTarget, body, accepted: true });
    } catch (error) {
      if (error instanceof Refused) return error.refusal;
      throw error;
    }
  }

  async #askedPosition(): Promise<bigint> {
    const { database, pools } = this.#stages;
    const arrived = await readArrived(pools, database, this.#spool, limits.catalogWaitMs);
    return arrived.positions.get(this.oid) ?? 0n;
  }

  /** The position tells what became of it. */
  async #ask(
    kind: 'unknown' | 'moved',
    count: number,
    rows: number,
    last: bigint,
    target: Target,
  ): Promise<Step> {
    const before = this.#position;
    const position = await this.#askedPosition();
    if (position === last) return this.#arrived(count, rows, last);
    if (position > before) {
      // Another process hands over the same requests.
      this.#positions.set(this.oid, position);
      this.#members = this.#members.flatMap((member) =>
        member.first > position ? [member] : this.#behind(member).map(undecoded),
      );
      return 'again';
    }
    if (position < before)
      return this.#stop(refusal('internal', 'the position in the database has gone back'));
    this.#unmoved += 1;
    if (kind === 'unknown' || this.#unmoved === 1)
      return this.#unmoved > limits.spoolChangedMax ? this.#tooSlow(count, target, lostEachTime) : 'again';
    // Nothing else has moved it: code of the table has raised the error.
    return this.#takeApart(count, target) ? 'smaller' : this.#keepFirst(target, refusal('row_refused'));
  }

  /** Once the request is alone, it is skipped after some time: otherwise nothing of its table would ever arrive after it. */
  #tooSlow(count: number, target: Target, why: Refusal): Step | Promise<Step> {
    const isAlone = !this.#takeApart(count, target);
    const first = this.#members[0]?.first ?? 0n;
    const known = this.#slow.get(this.oid);
    const now = this.#stages.clock();
    const sinceMs = isAlone && known?.first === first && known.together === 1 ? known.sinceMs : now;
    if (isAlone && now - sinceMs >= limits.spoolSlowMs) return this.#keepFirst(target, why);
    this.#slow.set(this.oid, { first, sinceMs, together: Math.ceil(this.#together / 4) });
    return this.#stop(why);
  }

  #arrived(members: number, rows: number, last: bigint): Step {
    this.#positions.set(this.oid, last);
    const requests = this.#members.splice(0, members).reduce((sum, member) => sum + requestsOf(member), 0);
    // The one at fault may be among as many of the next.
    this.#together *= 2;
    this.#slow.delete(this.oid);
    this.#changed = 0;
    this.#unmoved = 0;
    this.#stages.observe({ kind: 'spool.arrived', table: this.name, requests, rows });
    return 'on';
  }

  async #keepFirst(target: Target | null, why: Refusal): Promise<Step> {
    const [member] = this.#members.splice(0, 1);
    if (member === undefined) return 'on';
    const [first = member, ...others] = apart(member);
    this.#members.unshift(...others.map(undecoded));
    const passage = { spool: this.#spool, first: this.#position + 1n, last: first.last };
    const request = decodeRequest(first.payload);
    const head = request?.head ?? unreadable;
    const kept = keepSpooled(
      {
        ...head,
        // Of a table that no longer exists only the name is known.
        target: target ?? unusableTarget({ ...this.name, oid: this.oid }),
        refusal: why,
        door: 'spool',
        authenticated: true,
        body: request?.body ?? first.payload,
      },
      limits,
    );
    const { database, pools } = this.#stages;
    await passWith(pools, { database, oid: this.oid }, passage, kept, limits.ackDeadlineMs);
    this.#positions.set(this.oid, first.last);
    this.#slow.delete(this.oid);
    if (why.code === 'delivery_differs')
      this.#stages.observe({ kind: 'deliveries.differ', table: this.name, deliveries: 1 });
    this.#stages.observe({ kind: 'spool.refused', table: this.name, code: why.code, reason: why.message });
    return 'on';
  }

  #stop({ message, engineError = message }: Refusal): Step {
    this.reason = engineError;
    return 'stop';
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

function undecoded({ first, last, payload }: Sealed): SpooledMember {
  return { first, last, payload, made: null, target: null };
}
