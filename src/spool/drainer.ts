/**
 * Hands over what is kept on the disk to its database when that is reachable again: one spool after another, in the order of
 * each table, group by group; each group is committed together with the position that it moves. Takes a DatabaseSpool; returns
 * nothing; never rejects. Only the position in the database says what has arrived: whatever is assumed here is read
 * from there again when anything was not as expected.
 *
 * It runs from the time at which the spool is opened, and sleeps until the spool wakes it (`DatabaseSpool.wake`). While there is something to hand over,
 * it looks now and then whether the database is back. Tables do not wait for each other: one that cannot be handed over is left out until
 * the next pass.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { abortWith } from '../kit/abort-signal.ts';
import { backoffMs } from '../kit/backoff.ts';
import { readArrived } from '../commit/hand-over.ts';
import type { Target } from '../types/target.ts';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import type { DatabaseSpool } from './database-spool.ts';
import { HeldRequests, KeptTables } from './kept-tables.ts';
import { apart, decodeRequest } from './kept-request.ts';
import type { SpooledTable } from './kept-request.ts';
import { beginning } from './spool.ts';
import type { Segment } from './segment-files.ts';
import type { ReadPosition, Spool, SpooledRequests } from './spool.ts';
import type { TableGate } from './table-order.ts';
import type { SlowTables } from './hand-over-failure.ts';
import { TableHandOver } from './table-hand-over.ts';
import type { HandOverInProgress, HandOverMemory, HandOverStages } from './table-hand-over.ts';

/** What is known of one spool while it is handed over. */
interface HandOverProgress extends HandOverInProgress {
  readonly spool: Spool;
  /** headgate.home() of the database that has answered. */
  readonly home: string;
  /** The same, or of the database from which its tables were moved there: what the requests were kept for. */
  readonly keptFor: string;
  /** The tables that were moved, their oids there by those in the requests; null: they were not. */
  readonly moved: ReadonlyMap<number, number> | null;
  readonly tables: KeptTables;
  /** Everything before has arrived, or belongs to tables for which it never will. */
  place: ReadPosition;
}

export class Drainer implements Closable {
  readonly #kept: DatabaseSpool;
  readonly #stages: HandOverStages;
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  readonly #progress = new Map<Spool, HandOverProgress>();
  /** What does not arrive, and is left on the disk. */
  readonly held: HeldRequests;
  /** headgate.home() of the database that an earlier process has served; null: not known. */
  readonly #homeBefore: string | null;
  #failures = 0;

  constructor(kept: DatabaseSpool, stages: HandOverStages) {
    this.#kept = kept;
    this.#stages = stages;
    this.held = new HeldRequests(kept.database, stages.observe);
    this.#homeBefore = kept.home;
    this.#ended = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const woken = this.#kept.untilWoken();
      if (this.#kept.health.quarantined.length > 0) await this.#kept.health.lookAside();
      if (!this.#hasWork()) await this.#pause(limits.spoolRetryMs, woken);
      // Not `#pause`, which every request that arrives meanwhile would end.
      else if (!this.#isReady()) await this.#wait(limits.spoolRetryMinMs);
      else if (await this.#drain()) await this.#pause(this.#backoff(), woken);
    }
  }

  /** Whether the database is back: only here is that noticed. */
  #isReady(): boolean {
    const { engine, catalog } = this.#stages;
    return engine.unavailable === null && catalog.isWatching(this.#kept.database);
  }

  #current(oid: number): Target | null {
    return this.#stages.catalog.current(this.#kept.database, oid);
  }

  #backoff(): number {
    return backoffMs(this.#failures + 1, limits.spoolRetryMinMs, limits.spoolRetryMs, Math.random);
  }

  async #pause(ms: number, woken: AbortSignal): Promise<void> {
    // While something fails, the pause is kept, however many requests come.
    if (this.#failures > 0) return this.#wait(ms);
    await this.#wait(ms, abortWith(woken, this.#closing.signal));
  }

  async #wait(ms: number, signal = this.#closing.signal): Promise<void> {
    await delay(ms, undefined, { signal, ref: false }).catch(() => {});
  }

  #hasWork(): boolean {
    return (
      this.#kept.spools.some(({ segments }) => segments.length > 0) ||
      [...this.#kept.gates].some(({ state }) => state !== 'open')
    );
  }

  /** Returns whether something is left. */
  async #drain(): Promise<boolean> {
    try {
      const blocked = await this.#handOverAll();
      await this.#openGates(blocked);
      await this.#trim();
      this.#failures = blocked.size === 0 ? 0 : this.#failures + 1;
    } catch {
      // The engine is unreachable again, or the disk cannot be read: the code that met the error reports it.
      this.#failures += 1;
    }
    return this.#hasWork();
  }

  /** Returns the tables that could not be handed over, of any spool. */
  async #handOverAll(): Promise<Set<number>> {
    const blocked = new Set<number>();
    for (const spool of this.#kept.spools) {
      if (this.#closing.signal.aborted) break;
      if (spool.segments.length === 0) continue;
      const progress = await this.#progressOf(spool);
      await this.#handOver(progress, blocked, null);
    }
    return blocked;
  }

  async #progressOf(spool: Spool): Promise<HandOverProgress> {
    const { home, positions, moved } = await readArrived(
      this.#stages.pools,
      this.#kept.database,
      spool.id,
      limits.catalogWaitMs,
    );
    this.#kept.home = home;
    const known = this.#progress.get(spool);
    // What is held was held for another database, or with fewer keys.
    const isOther = spool.unlock() || (known !== undefined && known.home !== home);
    if (isOther) this.held.release(spool);
    const { database } = this.#kept;
    const tables = known?.tables ?? new KeptTables(database, this.#stages.catalog, this.#homeBefore);
    if (isOther || known === undefined) await tables.read(spool);
    // A database that was restored to an earlier state no longer has what it had.
    const isBack = [...(known?.positions ?? [])].some(([oid, it]) => it > (positions.get(oid) ?? 0n));
    const from = isOther || known === undefined ? await this.#movedFrom(spool, tables, moved) : known.keptFor;
    const progress: HandOverProgress = {
      spool,
      home,
      keptFor: from ?? home,
      moved: moved.get(from ?? home) ?? null,
      positions: new Map(positions),
      tables,
      slow: known?.slow ?? new Map<number, SlowTables>(),
      place: isBack || isOther ? beginning : (known?.place ?? beginning),
    };
    this.#progress.set(spool, progress);
    return progress;
  }

  /** headgate.home() of the database that its first requests were kept for, if its tables were moved here; null: they were not. */
  async #movedFrom(
    spool: Spool,
    tables: KeptTables,
    moved: ReadonlyMap<string, unknown>,
  ): Promise<string | null> {
    if (moved.size === 0) return null;
    for await (const record of spool.requests(beginning, () => true)) {
      const home = tables.of(record)?.home;
      if (home !== undefined) return moved.has(home) ? home : null;
    }
    return null;
  }

  /** `only`: the table that is being emptied; null: all tables. */
  async #handOver(progress: HandOverProgress, blocked: Set<number>, only: number | null): Promise<void> {
    const { spool } = progress;
    const waiting = new Map<number, TableHandOver>();
    const memory: HandOverMemory = { bytes: 0 };
    let before = progress.place;
    // A table that was left out of a spool before this one is left out here, too.
    const isLeftOut = spool.segments.some(({ last }) =>
      [...last.keys()].some((oid) => blocked.has(oidHere(progress, oid))),
    );
    let resume: ReadPosition | null = isLeftOut ? before : null;
    const wanted = (oid: number, sequence: bigint): boolean =>
      (only === null || oid === only) &&
      sequence > arrivedOf(progress, oid) &&
      !blocked.has(oidHere(progress, oid)) &&
      !this.held.has(spool, oid);
    const note = (table: TableHandOver, isOn: boolean): void => {
      if (isOn || table.began === null) return;
      blocked.add(table.oid);
      this.#gateBlocked(table);
      resume = earlier(resume, table.began);
    };
    const endAll = async () => {
      for (const table of waiting.values()) note(table, await table.flush());
    };
    try {
      const locked = (segment: Segment) =>
        this.held.holdLocked(progress, segment, (oid) => arrivedOf(progress, oid));
      for await (const record of spool.requests(before, wanted, locked)) {
        if (this.#closing.signal.aborted) break;
        const name = progress.tables.of(record);
        const here = oidHere(progress, record.oid);
        if (!this.held.isOurs(progress, record.oid, name, here !== none)) continue;
        if (this.#kept.undated.delete(record.oid)) this.#date(record, arrivedOf(progress, record.oid));
        const table = this.#tableFor(waiting, progress, { ...name, oid: here }, memory);
        table.push(record, before);
        before = record.place;
        if (table.isFull) note(table, await table.next());
        else if (memory.bytes > limits.spoolDrainBytesMax) await endAll();
      }
    } finally {
      // As a rule all is stored here: few requests make no full group.
      await endAll();
    }
    if (only === null && !this.#closing.signal.aborted) progress.place = resume ?? before;
  }

  /** A table that an earlier process has spooled does so since its first request that has not arrived. */
  #date(record: SpooledRequests, arrived: bigint): void {
    const first = apart(record).find((one) => one.first > arrived);
    const request = first === undefined ? null : decodeRequest(first.payload);
    if (request !== null) this.#kept.gateOf(record.oid).sinceMs = request.head.arrivedAtMs;
  }

  #tableFor(
    waiting: Map<number, TableHandOver>,
    progress: HandOverProgress,
    name: SpooledTable,
    memory: HandOverMemory,
  ): TableHandOver {
    let table = waiting.get(name.oid);
    if (table === undefined) {
      table = new TableHandOver(this.#stages, progress, name, memory);
      waiting.set(name.oid, table);
    }
    return table;
  }

  #gateBlocked({ oid, name, reason }: TableHandOver): void {
    const gate = this.#kept.gateOf(oid);
    if (gate.reason !== reason) this.#stages.observe({ kind: 'spool.blocked', table: name, reason });
    gate.reason = reason;
  }

  /** New requests of tables of which nearly nothing is left wait while the rest is handed over, and then use the lane again. */
  async #openGates(blocked: ReadonlySet<number>): Promise<void> {
    for (const gate of this.#kept.gates) {
      if (gate.state !== 'spooling' || blocked.has(gate.oid) || this.#closing.signal.aborted) continue;
      if (!gate.beginEmptying()) continue;
      const late = setTimeout(() => gate.endEmptying(), limits.spoolEmptyingMs);
      try {
        await gate.written;
        if (await this.#isEmptied(gate)) this.#opened(gate);
      } finally {
        clearTimeout(late);
        gate.endEmptying();
      }
    }
  }

  #opened(gate: TableGate): void {
    // Everything had arrived before.
    const since = this.#kept.undated.has(gate.oid) ? null : gate.sinceMs;
    if (!gate.open()) return;
    this.#kept.undated.delete(gate.oid);
    const { database } = this.#kept;
    const table = this.#current(gate.oid) ?? this.#toldOf(gate.oid);
    const seconds = since === null ? 0 : (Date.now() - since) / 1_000;
    if (table !== null)
      this.#stages.observe({
        kind: 'spool.left',
        table: { database, schema: table.schema, table: table.table },
        seconds,
      });
  }

  /** How many requests of the database are on the disk, at most: a file may also hold some that have arrived. */
  get waiting(): number {
    return this.#kept.spools.reduce((sum, spool) => sum + this.#waitingOf(spool), 0);
  }

  #waitingOf(spool: Spool): number {
    const progress = this.#progress.get(spool);
    const arrived = (oid: number) => (progress === undefined ? 0n : arrivedOf(progress, oid));
    const ofSegment = ({ last, counts }: Segment) =>
      [...last].reduce(
        (sum, [oid, sequence]) => sum + (sequence > arrived(oid) ? (counts.get(oid)?.requests ?? 0) : 0),
        0,
      );
    return spool.segments.reduce((sum, segment) => sum + ofSegment(segment), 0);
  }

  #toldOf(oid: number): SpooledTable | null {
    for (const { tables } of this.#progress.values()) {
      const table = tables.last(oid);
      if (table !== undefined) return table;
    }
    return null;
  }

  async #isEmptied(gate: TableGate): Promise<boolean> {
    const blocked = new Set<number>();
    for (const spool of this.#kept.spools) {
      if (this.#hasArrived(spool, gate)) continue;
      await this.#handOver(await this.#progressOf(spool), blocked, gate.oid);
      if (!this.#hasArrived(spool, gate)) return false;
    }
    return true;
  }

  #hasArrived(spool: Spool, { oid }: TableGate): boolean {
    if (this.held.has(spool, oid)) return true;
    const progress = this.#progress.get(spool);
    const position = progress === undefined ? 0n : arrivedOf(progress, oid);
    return spool.segments.every(({ last }) => (last.get(oid) ?? 0n) <= position);
  }

  /** Removes from the disk what has arrived, as TableHandOver has noted it after each COMMIT; a spool of another process is removed with its last segment. */
  async #trim(): Promise<void> {
    for (const spool of this.#kept.spools) {
      const progress = this.#progress.get(spool);
      if (progress !== undefined)
        await spool.forget((oid) => (this.held.has(spool, oid) ? 0n : arrivedOf(progress, oid)));
      if (spool.segments.length > 0 || spool === this.#kept.own) continue;
      await this.#kept.remove(spool);
      this.#progress.delete(spool);
    }
  }
}

/** No table. */
const none = 0;

/** The table that requests of `oid` are handed over to. */
function oidHere({ moved }: Pick<HandOverProgress, 'moved'>, oid: number): number {
  return moved === null ? oid : (moved.get(oid) ?? none);
}

/** The last request of `oid` that has arrived. */
function arrivedOf(progress: Pick<HandOverProgress, 'moved' | 'positions'>, oid: number): bigint {
  return progress.positions.get(oidHere(progress, oid)) ?? 0n;
}

function earlier(one: ReadPosition | null, other: ReadPosition): ReadPosition {
  if (one === null) return other;
  return one.segment < other.segment || (one.segment === other.segment && one.at <= other.at) ? one : other;
}
