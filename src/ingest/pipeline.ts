/**
 * The stages of a request between its table and the lane: found in the catalog, admitted to the lane, submitted to it. Webhooks take `WebhookPipeline`
 * (webhook-pipeline.ts), which may lead to the disk; WebSockets and retries `DirectPipeline`. Refuses with `rate_limited`, `spooling`, and with the codes
 * of catalog and lanes.
 */
import type { Admission } from '../access/admission.ts';
import type { Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { Refused, refusal, restsOnCatalog } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { TableName } from '../observe/observations.ts';
import type { TableGate } from '../spool/table-order.ts';
import type { Arrival } from '../types/request.ts';
import type { Outcome, Rows, Spooled } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

export interface Pipeline {
  /** The table as the catalog knows it now; throws `not_found`, `engine_unavailable`. */
  find(name: TableName): Target | Promise<Target>;
  /** Whether it is what `find` would return, as the engine says after `sinceMs` of the clock; throws `engine_unavailable`. */
  isStill(target: Target, sinceMs: number): boolean | Promise<boolean>;
  /** Called before the body is read; throws `lane_full`, `draining`. */
  admit(target: Target, announcedBytes: number): void;
  /** `arrival` and `body`: what the rows were made from, for the spool, which keeps the request instead of the rows. */
  submit(rows: Rows, arrival: Arrival, body: Buffer): Promise<Outcome | Spooled>;
}

/** The disk, here (spool/) or in the process that keeps it for all listener processes. */
export interface Disk {
  /** null: requests for this database are not kept. */
  spoolOf(database: string): DiskSpool | null;
  /** Resolves when the spool of a database is opened. */
  opened(database: string): Promise<void>;
}

export interface DiskSpool {
  gateOf(oid: number): TableGate;
  /** null: the table has never spooled. */
  knownGate(oid: number): TableGate | null;
  /** Throws Refused. */
  admit(gate: TableGate): void;
  /** Resolves when it is on the disk; rejects with Refused. */
  append(target: Target, gate: TableGate, payload: Buffer): Promise<void>;
}

/** Where all ways lead. */
export interface Destinations {
  readonly catalog: Pick<Catalog, 'find' | 'isStill'>;
  readonly lanes: Pick<Lanes, 'admit' | 'submit'>;
  /** null: the rate of a table has no bound. */
  readonly gate: Pick<Admission, 'admitTable'> | null;
  /** null: no requests are kept. */
  readonly disk: Disk | null;
}

export class DirectPipeline implements Pipeline {
  readonly #to: Destinations;
  readonly #inOrder: boolean;

  /** `inOrder`: the rows belong to a chain. */
  constructor(to: Destinations, inOrder: boolean) {
    this.#to = to;
    this.#inOrder = inOrder;
  }

  find(name: TableName): Target | Promise<Target> {
    return this.#to.catalog.find(name);
  }

  isStill(target: Target, sinceMs: number): boolean | Promise<boolean> {
    return this.#to.catalog.isStill(target, sinceMs);
  }

  admit(target: Target, bytes: number): void {
    this.#to.gate?.admitTable(target);
    refuseOvertaking(target, this.#to.disk);
    this.#to.lanes.admit(target, { bytes, inOrder: this.#inOrder });
  }

  submit(rows: Rows): Promise<Outcome> {
    return this.#to.lanes.submit(rows);
  }
}

/** Rows that bypass the disk would overtake rows of their table that do not. */
function refuseOvertaking({ database, oid }: Target, disk: Disk | null): void {
  const gate = disk?.spoolOf(database)?.knownGate(oid) ?? null;
  if (gate !== null && gate.state !== 'open') throw new Refused('spooling');
}

/** How many times one request is tried while its table keeps changing. */
export const changedAttemptsMax = 3;

/**
 * Whether a refusal may be given. One that rests on the catalog, and that its sender would not try again, is given only if the table is still what it was
 * found to be, as the engine says after the request arrived (decision 0230). Takes a refusal; returns it, or `table_changed`, upon which the request is
 * checked again, or `engine_unavailable`. A request that is accepted pays nothing for it.
 */
export async function standing(
  why: Refusal,
  way: Pick<Pipeline, 'isStill'>,
  target: Target | null,
  sinceMs: number,
): Promise<Refusal> {
  if (target === null || !restsOnCatalog(why.code)) return why;
  try {
    return (await way.isStill(target, sinceMs)) ? why : refusal('table_changed');
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
}
