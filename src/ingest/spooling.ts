/**
 * What happens to a request while its database is unreachable: another way through the stages in ingest.ts, for tables that spool.
 *
 *   find (in the last known catalog) → admit → body → VALIDATE → decode → the disk, after the requests that are already there
 *
 * Takes catalog, lanes and disk; refuses with their codes, and with `spool_full`, `engine_unavailable`, `table_changed` and, if its database is moved, `spooling`. A request goes to the disk only
 * if it is certain that the database stored nothing of it, if the table stores each delivery once, or if its rows go elsewhere (`into`), at
 * least once. The first request of an outage comes here from the lane, which did not store it (`submit`), or, if the catalog has noticed first, without
 * a table (`findLate`); the next ones find that the table spools (`admit`). Requests that arrive while a table switches between lane and disk wait for the switch (spool/table-order.ts). Nothing is ever
 * stored in the database on the basis of the last known catalog.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ExpectedRequest, Lanes } from '../batch/lanes.ts';
import { keptHeaders, encodeRequest } from '../spool/kept-request.ts';
import { isSpooling } from '../spool/table-order.ts';
import type { TableGate } from '../spool/table-order.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { keyOfName } from '../catalog/database-tables.ts';
import type { ServedTables } from '../catalog/database-tables.ts';
import type { Settings } from '../config/settings.ts';
import type { Arrival } from '../types/request.ts';
import type { Outcome, Rows, Spooled } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import type { TableName } from '../observe/observations.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';

/** The disk: here (`Spools` of spool/), or in the main process that keeps it for all listener processes (`SpoolClient` of app/listeners/). */
export interface Disk {
  /** A look-up; null: requests for this database are not kept. */
  spoolOf(database: string): DiskSpool | null;
  /** Resolves when the spool of a database is opened. */
  opened(database: string): Promise<void>;
}

/** `DatabaseSpool` (spool/database-spool.ts), or the same as seen from a listener process (`LinkedSpool`). */
export interface DiskSpool {
  gateOf(oid: number): TableGate;
  /** null: the table has never spooled. */
  knownGate(oid: number): TableGate | null;
  /** Throws Refused. */
  admit(gate: TableGate): void;
  /** Resolves when it is on the disk; rejects with Refused. */
  append(target: Target, gate: TableGate, payload: Buffer): Promise<void>;
}

export interface SpoolStages extends Pick<StageContext, 'observe'> {
  readonly catalog: Pick<Catalog, 'find' | 'isStill'> &
    Pick<ServedTables, 'isWatchingTable' | 'known' | 'doubtMs'>;
  readonly lanes: Pick<Lanes, 'admit' | 'submit'>;
  /** null: no requests are kept. */
  readonly disk: Disk | null;
  readonly settings: Pick<Settings, 'spool' | 'spoolTrustSeconds' | 'spoolHours'>;
}

const unreferenced = (ms: number): Promise<void> => delay(ms, undefined, { ref: false });

/** Refusals of a lane which mean that the database accepts no rows now, and that it stored none of these. */
const away: ReadonlySet<RefusalCode> = new Set<RefusalCode>(['engine_unavailable', 'deadline', 'lane_full']);

export class Spooling {
  readonly #stages: SpoolStages;
  readonly #pause: (ms: number) => Promise<void>;

  /** `pause`: resolves after so many ms. */
  constructor(stages: SpoolStages, pause = unreferenced) {
    this.#stages = stages;
    this.#pause = pause;
  }

  /** The table, if the catalog does not have it at once. Throws Refused. */
  findLate(name: TableName): Target | Promise<Target> {
    if (!this.#stages.catalog.isWatchingTable(name)) return this.#findAway(name);
    const found = this.#stages.catalog.find(name);
    return found instanceof Promise ? found.catch((error: unknown) => this.#findInDoubt(name, error)) : found;
  }

  async #findAway(name: TableName): Promise<Target> {
    const known = this.#remembered(name);
    const gate = known === null ? null : this.#gateOf(known);
    if (known === null || gate === null || known.check === 'unusable') return this.#stages.catalog.find(name);
    // `admit` finds out whether the spool has room.
    if (gate.state !== 'open') return known;
    if (!this.#canKeep(known, gate)) return this.#stages.catalog.find(name);
    // It may only be a short interruption.
    const found = this.#stages.catalog.find(name);
    const none = this.#pause(limits.spoolAfterMs).then(() => null);
    const target = await Promise.race([found, none]).catch((error: unknown) => {
      if (error instanceof Refused && error.refusal.code === 'engine_unavailable') return null;
      throw error;
    });
    if (target !== null) return target;
    // Nothing awaits it any more.
    void Promise.resolve(found).catch(() => {});
    this.#fill(known, gate);
    return known;
  }

  /** The table as it was when the engine was last asked; null: that was too long ago, or nothing is known. */
  #remembered(name: TableName): Target | null {
    const { catalog } = this.#stages;
    const trustMs = this.#stages.settings.spoolTrustSeconds * 1_000;
    const known = catalog.known(name.database);
    if (known === null || known.ageMs > trustMs) return null;
    const table = known.snapshot.tables.get(keyOfName(name)) ?? null;
    return table === null || catalog.doubtMs(table) > trustMs ? null : table;
  }

  admit(target: Target, expected: ExpectedRequest): void {
    if (this.#isLeaving(target)) throw new Refused('spooling');
    const gate = this.#gateOf(target);
    if (gate === null) return this.#stages.lanes.admit(target, expected);
    if (gate.state === 'open') {
      try {
        return this.#stages.lanes.admit(target, expected);
      } catch (error) {
        const isFull = error instanceof Refused && error.refusal.code === 'lane_full';
        if (!isFull || !this.#canKeep(target, gate)) throw error;
        this.#fill(target, gate);
      }
    }
    this.#spoolOf(target.database)?.admit(gate);
  }

  submit(rows: Rows, arrival: Arrival, body: Buffer): Promise<Outcome | Spooled> {
    if (this.#isLeaving(rows.target))
      return Promise.resolve({ kind: 'aborted', refusal: refusal('spooling') });
    const gate = this.#gateOf(rows.target);
    if (gate !== null) {
      if (gate.state !== 'open' || !this.#isCurrent(rows.target))
        return this.#spool(gate, rows, arrival, body);
      gate.enterLane();
    }
    return this.#stages.lanes.submit(rows).then((outcome) => {
      const mayKeep = this.#mayKeep(outcome, rows);
      if (gate === null) return mayKeep ? this.#keepOnceOpened(outcome, rows, arrival, body) : outcome;
      const isKept = mayKeep && this.#canKeep(rows.target, gate);
      if (isKept) this.#fill(rows.target, gate);
      gate.leaveLane();
      return isKept ? this.#keep(rows, gate, arrival, body, true) : outcome;
    });
  }

  async #spool(gate: TableGate, rows: Rows, arrival: Arrival, body: Buffer): Promise<Outcome | Spooled> {
    const { target } = rows;
    if (gate.state === 'filling' || gate.state === 'emptying') {
      while (gate.state === 'filling' || gate.state === 'emptying') await gate.turn;
      // The rows were decoded for the table as it was before the wait.
      if (gate.state === 'open') return changed;
    }
    if (gate.state !== 'open') return this.#keep(rows, gate, arrival, body, false);
    // The database became unreachable after the table was found, or the table has changed since.
    if (this.#stages.catalog.isWatchingTable(target) || !this.#canKeep(target, gate)) return changed;
    this.#fill(target, gate);
    // Through the gate again, filled or not: the request must not overtake those that it waits for.
    return this.submit(rows, arrival, body);
  }

  async #keep(
    rows: Rows,
    gate: TableGate,
    arrival: Arrival,
    body: Buffer,
    wasInLane: boolean,
  ): Promise<Outcome | Spooled> {
    const { target } = rows;
    const spool = this.#spoolOf(target.database);
    if (spool === null) return { kind: 'aborted', refusal: refusal('engine_unavailable') };
    const { method, target: requestTarget, arrivedAtMs, remoteAddress, traceparent } = arrival;
    const rawHeaders = keptHeaders(arrival.rawHeaders, target);
    const head = { method, requestTarget, rawHeaders, arrivedAtMs, remoteAddress, traceparent };
    try {
      await spool.append(target, gate, encodeRequest(head, body));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { refusal: why } = error;
      return why.code === 'commit_unknown'
        ? { kind: 'unknown', refusal: why }
        : { kind: 'aborted', refusal: why };
    }
    this.#stages.observe({ kind: 'spool.kept', table: target, rows: rows.count });
    return { kind: 'spooled', rows: rows.count, status: target.spool?.status ?? 202, wasInLane };
  }

  /**
   * A table has one gate, which outlives each Target of it. null: the table does not spool, or the spool of its database is still being opened, which begins
   * when the catalog first has a table that spools: its requests go to the lane.
   */
  #gateOf(target: Target): TableGate | null {
    if (!isSpooling(target, this.#stages.settings)) return null;
    return this.#spoolOf(target.database)?.gateOf(target.oid) ?? null;
  }

  /** Its database is being moved, and its last requests are being handed over, which none overtakes. */
  #isLeaving({ database, oid, spool }: Target): boolean {
    if (spool?.isMoved !== true) return false;
    const gate = this.#spoolOf(database)?.knownGate(oid) ?? null;
    return gate !== null && gate.state !== 'open';
  }

  #spoolOf(database: string): DiskSpool | null {
    return this.#stages.disk?.spoolOf(database) ?? null;
  }

  #canKeep(target: Target, gate: TableGate): boolean {
    try {
      const spool = this.#spoolOf(target.database);
      spool?.admit(gate);
      return spool !== null;
    } catch {
      return false;
    }
  }

  #fill(target: Target, gate: TableGate): void {
    if (gate.state !== 'open') return;
    gate.fill(Date.now());
    this.#stages.observe({ kind: 'spool.entered', table: target });
  }

  #isCurrent(target: Target): boolean {
    const { catalog } = this.#stages;
    // Not `find`: if nothing has looked at the table since it was found, the commit asks whether it has changed.
    const known = catalog.known(target.database)?.snapshot.tables.get(keyOfName(target));
    return catalog.isWatchingTable(target) && known === target && catalog.doubtMs(target) === 0;
  }

  /** The database has none of the rows; or storing them again does no harm: deliveries are stored once, or rows go elsewhere at least once. */
  #mayKeep(outcome: Outcome, { target: { dedupe, into }, delivery }: Rows): boolean {
    if (outcome.kind === 'aborted') return away.has(outcome.refusal.code);
    const isOnce =
      delivery !== undefined && (dedupe?.windowS ?? 0) > this.#stages.settings.spoolHours * 3_600;
    // The answer to the commit is lost, or came too late.
    return (
      (isOnce || into !== undefined) && outcome.kind === 'unknown' && outcome.refusal.code !== 'internal'
    );
  }

  /** A spool is opened in the background, and on a busy disk that takes longer than the first request of its table waits for its lane. */
  async #keepOnceOpened(
    outcome: Outcome,
    rows: Rows,
    arrival: Arrival,
    body: Buffer,
  ): Promise<Outcome | Spooled> {
    const opened = this.#stages.disk?.opened(rows.target.database);
    await Promise.race([opened, this.#pause(limits.spoolOpenedMs)]);
    const gate = this.#gateOf(rows.target);
    if (gate === null || !this.#canKeep(rows.target, gate)) return outcome;
    this.#fill(rows.target, gate);
    return this.#keep(rows, gate, arrival, body, true);
  }

  /** The table has changed, and could not be read in time. */
  #findInDoubt(name: TableName, error: unknown): Target {
    const isAway = error instanceof Refused && error.refusal.code === 'engine_unavailable';
    const known = isAway ? this.#remembered(name) : null;
    const gate = known === null ? null : this.#gateOf(known);
    if (known === null || gate === null || known.check === 'unusable' || !this.#canKeep(known, gate))
      throw error;
    this.#fill(known, gate);
    return known;
  }

  /** While a table spools it is checked with what was known last, and who fails the check is refused by it as well. */
  isStill(target: Target, sinceMs: number): boolean | Promise<boolean> {
    const gate = this.#gateOf(target);
    const spools = gate !== null && gate.state !== 'open' && !this.#stages.catalog.isWatchingTable(target);
    return (spools && this.#remembered(target) === target) || this.#stages.catalog.isStill(target, sinceMs);
  }
}

const changed: Outcome = { kind: 'aborted', refusal: refusal('table_changed') };
