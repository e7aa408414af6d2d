/**
 * The batches of one WebSocket that are not acknowledged, in order, and the bytes of those of all WebSockets of one table.
 * Takes batches and returns them in order; says when a socket must not be read until some are gone. Touches nothing.
 */
import type { Outcome } from '../types/rows.ts';
import type { Limits } from '../config/limits.ts';
import type { TableName } from '../observe/observations.ts';
import type { TracedRequest } from '../telemetry/tracer.ts';

export interface Pending {
  readonly id: bigint;
  readonly bytes: number;
  readonly startedMs: number;
  /** null: it is not traced. */
  readonly span: TracedRequest | null;
  outcome: Outcome | null;
}

/** For all tables of one listener: a slow table may hold half of the bytes that may be in flight, and no more. */
export class Backlogs {
  readonly #max: number;
  readonly #tables = new Map<string, Backlog>();

  constructor({ bodiesInFlightBytesMax }: Limits) {
    this.#max = bodiesInFlightBytesMax / 2;
  }

  /** `stall`: called with whether too much waits for the table. */
  join({ database, schema, table }: TableName, stall: (stalls: boolean) => void): Membership {
    const name = JSON.stringify([database, schema, table]);
    const backlog = this.#tables.get(name) ?? new Backlog(this.#max);
    this.#tables.set(name, backlog);
    backlog.stalls.add(stall);
    if (backlog.full) stall(true);
    const leave = () => {
      backlog.stalls.delete(stall);
      if (backlog.stalls.size === 0) this.#tables.delete(name);
    };
    return { add: (bytes) => backlog.add(bytes), leave };
  }
}

interface Membership {
  add(bytes: number): void;
  leave(): void;
}

class Backlog {
  full = false;
  readonly stalls = new Set<(stalls: boolean) => void>();
  readonly #max: number;
  #bytes = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    const full = this.full ? this.#bytes >= this.#max / 2 : this.#bytes >= this.#max;
    if (full === this.full) return;
    this.full = full;
    for (const stall of this.stalls) stall(full);
  }
}

export class Unacked {
  readonly #limits: Limits;
  readonly #pending: Pending[] = [];
  #bytes = 0;
  #table: Membership | null = null;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get first(): Pending | undefined {
    return this.#pending[0];
  }

  /** No more may be read. */
  get full(): boolean {
    const { websocketUnackedMax, websocketUnackedBytesMax } = this.#limits;
    return this.#pending.length >= websocketUnackedMax || this.#bytes >= websocketUnackedBytesMax;
  }

  /** There is room for a while. */
  get low(): boolean {
    const { websocketUnackedMax, websocketUnackedBytesMax } = this.#limits;
    return this.#pending.length * 2 < websocketUnackedMax && this.#bytes * 2 < websocketUnackedBytesMax;
  }

  countsFor(table: Membership): void {
    this.#table = table;
    table.add(this.#bytes);
  }

  push(batch: Pending): void {
    this.#pending.push(batch);
    this.#add(batch.bytes);
  }

  shift(): void {
    this.#add(-(this.#pending.shift()?.bytes ?? 0));
  }

  /** None of them will be acknowledged. */
  end(): void {
    this.#pending.length = 0;
    this.#add(-this.#bytes);
    this.#table?.leave();
    this.#table = null;
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    this.#table?.add(bytes);
  }
}
