/**
 * What becomes of a request while its database is away, as a detour of the sentence in ingest.ts. Where a table spools:
 *
 *   find (from what was last known) → admit → body → VALIDATE → decode → the disk, behind what is there already
 *
 * Takes the stages `find`, `admit` and `submit`, and gives them again; refuses with what they do, with `spool_full`, and with `engine_unavailable` and `table_changed`. A
 * request goes to the disk only where it is certain that the database has nothing of it, or that it stores a delivery once. What comes while a table goes from one way
 * to the other waits for its turn (spool/table-gate.ts). Nothing is ever stored in the database on the word of what was last known.
 */
import { keptHeaders, encodeRequest } from '../spool/kept-request.ts';
import type { TableGate } from '../spool/table-gate.ts';
import type { Arrival, Outcome, Rows, Spooled, Target } from '../tables/flow.ts';
import { limits } from '../tables/limits.ts';
import type { Observe, TableName } from '../tables/observations.ts';
import { refusal, Refused } from '../tables/refusals.ts';
import type { RefusalCode } from '../tables/refusals.ts';
import type { IngestDeps } from './ingest.ts';

type Stages = Pick<IngestDeps, 'find' | 'admit' | 'submit'>;

export interface SpoolingDeps {
  readonly find: (name: TableName) => Target | Promise<Target>;
  readonly admit: (target: Target, announcedBytes: number) => void;
  /** To the lane. */
  readonly submit: (rows: Rows) => Promise<Outcome>;
  /** Whether the catalog knows tables of this database as the engine has them now. */
  readonly isWatching: (database: string) => boolean;
  /** A table as it was when the engine was last asked; null: that is too long ago, or nothing is known. */
  readonly remembered: (name: TableName) => Target | null;
  /** Whether requests of this table are kept while its database is away. */
  readonly spools: (target: Target) => boolean;
  /** Where they are kept; null: nowhere. */
  readonly spoolOf: (database: string) => SpoolRoom | null;
  /** How long a table may spool, in seconds. */
  readonly ageS: number;
  /** Resolves after that long. */
  readonly pause: (ms: number) => Promise<void>;
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** ms since 1970 */
  readonly nowMs: () => number;
}

export interface SpoolRoom {
  gateOf(oid: number): TableGate;
  /** Throws Refused. */
  admit(gate: TableGate): void;
  /** Resolves when it is on the disk; rejects with Refused. */
  append(target: Target, gate: TableGate, payload: Buffer): Promise<void>;
}

export function createSpooling(deps: SpoolingDeps): Stages {
  const spooling = new Spooling(deps);
  return {
    find: (name) => spooling.find(name),
    admit: (target, bytes) => spooling.admit(target, bytes),
    submit: (rows, arrival, body) => spooling.submit(rows, arrival, body),
  };
}

/** Refusals of a lane that say that the database does not take rows now, and that it has nothing of these. */
const away: ReadonlySet<RefusalCode> = new Set<RefusalCode>(['engine_unavailable', 'deadline', 'lane_full']);

class Spooling {
  readonly #deps: SpoolingDeps;
  /** A gate is made once, and outlives every picture of its table. */
  readonly #gates = new WeakMap<Target, TableGate>();

  constructor(deps: SpoolingDeps) {
    this.#deps = deps;
  }

  find(name: TableName): Target | Promise<Target> {
    return this.#deps.isWatching(name.database) ? this.#deps.find(name) : this.#findAway(name);
  }

  admit(target: Target, bytes: number): void {
    const gate = this.#gateOf(target);
    if (gate === null) return this.#deps.admit(target, bytes);
    if (gate.state === 'open') {
      try {
        this.#deps.admit(target, bytes);
        gate.refusedAtMs = null;
        return;
      } catch (error) {
        if (!(error instanceof Refused) || error.refusal.code !== 'lane_full') throw error;
        const now = this.#deps.clock();
        gate.refusedAtMs ??= now;
        if (now - gate.refusedAtMs < limits.spoolRefusedMs || !this.#canKeep(target, gate)) throw error;
        this.#fill(target, gate);
      }
    }
    this.#deps.spoolOf(target.database)?.admit(gate);
  }

  submit(rows: Rows, arrival: Arrival, body: Buffer): Promise<Outcome | Spooled> {
    const gate = this.#gateOf(rows.target);
    if (gate === null) return this.#deps.submit(rows);
    if (gate.state !== 'open' || !this.#isCurrent(rows.target))
      return this.#detour(gate, rows, arrival, body);
    gate.enterLane();
    return this.#deps.submit(rows).then((outcome) => {
      const isKept = this.#mayKeep(outcome, rows) && this.#canKeep(rows.target, gate);
      if (isKept) this.#fill(rows.target, gate);
      gate.leaveLane();
      return isKept ? this.#keep(rows, gate, arrival, body) : outcome;
    });
  }

  async #detour(gate: TableGate, rows: Rows, arrival: Arrival, body: Buffer): Promise<Outcome | Spooled> {
    const { target } = rows;
    if (gate.state === 'filling' || gate.state === 'emptying') {
      while (gate.state === 'filling' || gate.state === 'emptying') await gate.turn;
      // It was made for the table as it was then.
      if (gate.state === 'open') return changed;
    }
    if (gate.state === 'open') return this.#backOrAway(target, gate, rows, arrival, body);
    return this.#keep(rows, gate, arrival, body);
  }

  async #findAway(name: TableName): Promise<Target> {
    const known = this.#deps.remembered(name);
    const gate = known === null ? null : this.#gateOf(known);
    if (known === null || gate === null || known.check === 'unusable') return this.#deps.find(name);
    // Whether there is room for it is found out when it is let in.
    if (gate.state !== 'open') return known;
    if (!this.#canKeep(known, gate)) return this.#deps.find(name);
    // It may only be a hiccup.
    const found = this.#deps.find(name);
    const none = this.#deps.pause(limits.spoolAfterMs).then(() => null);
    const target = await Promise.race([found, none]).catch((error: unknown) => {
      if (error instanceof Refused && error.refusal.code === 'engine_unavailable') return null;
      throw error;
    });
    if (target !== null) return target;
    // Nobody waits for it any more.
    void Promise.resolve(found).catch(() => {});
    this.#fill(known, gate);
    return known;
  }

  /** The database has gone since the table was found, or it is another table by now. */
  #backOrAway(
    target: Target,
    gate: TableGate,
    rows: Rows,
    arrival: Arrival,
    body: Buffer,
  ): Promise<Outcome | Spooled> {
    if (this.#deps.isWatching(target.database) || !this.#canKeep(target, gate))
      return Promise.resolve(changed);
    this.#fill(target, gate);
    // Filled or not: nothing of what it waits for may be overtaken.
    return this.submit(rows, arrival, body);
  }

  async #keep(rows: Rows, gate: TableGate, arrival: Arrival, body: Buffer): Promise<Outcome | Spooled> {
    const { target } = rows;
    const spool = this.#deps.spoolOf(target.database);
    if (spool === null) return { kind: 'aborted', refusal: refusal('engine_unavailable') };
    const { method, target: requestTarget, arrivedAtMs, remoteAddress } = arrival;
    const rawHeaders = keptHeaders(arrival.rawHeaders, target);
    const head = { method, requestTarget, rawHeaders, arrivedAtMs, remoteAddress };
    try {
      await spool.append(target, gate, encodeRequest(head, body));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { refusal: why } = error;
      return why.code === 'commit_unknown'
        ? { kind: 'unknown', refusal: why }
        : { kind: 'aborted', refusal: why };
    }
    this.#deps.observe({ kind: 'spool.kept', table: target, rows: rows.count });
    return { kind: 'spooled', rows: rows.count, status: target.spool?.status ?? 202 };
  }

  /** null: the table does not spool, and goes to its lane whatever happens. */
  #gateOf(target: Target): TableGate | null {
    const known = this.#gates.get(target);
    if (known !== undefined) return known;
    if (!this.#deps.spools(target)) return null;
    const gate = this.#deps.spoolOf(target.database)?.gateOf(target.oid) ?? null;
    if (gate !== null) this.#gates.set(target, gate);
    return gate;
  }

  /** The database has nothing of it; or it does not matter whether it has: it stores a delivery once, or is told at least once anyway. */
  #mayKeep(outcome: Outcome, { target: { dedupe, into }, delivery }: Rows): boolean {
    if (outcome.kind === 'aborted') return away.has(outcome.refusal.code);
    const isOnce = delivery !== undefined && (dedupe?.windowS ?? 0) > this.#deps.ageS;
    // Its answer is lost, or did not come in time.
    return (
      (isOnce || into !== undefined) && outcome.kind === 'unknown' && outcome.refusal.code !== 'internal'
    );
  }

  #canKeep(target: Target, gate: TableGate): boolean {
    try {
      const spool = this.#deps.spoolOf(target.database);
      spool?.admit(gate);
      return spool !== null;
    } catch {
      return false;
    }
  }

  #isCurrent(target: Target): boolean {
    return this.#deps.isWatching(target.database) && this.#deps.find(target) === target;
  }

  #fill(target: Target, gate: TableGate): void {
    if (gate.state !== 'open') return;
    gate.fill(this.#deps.nowMs());
    this.#deps.observe({ kind: 'spool.entered', table: target });
  }
}

const changed: Outcome = { kind: 'aborted', refusal: refusal('table_changed') };
