/**
 * What accepted requests held, for tables whose owners want to inspect it (`inspect = 'bodies'`). Takes stored requests; returns one
 * to a caller that names it and may read its table, as long as the ring remembers its outcome and the table has not changed. Refuses
 * nothing: when space runs out, the oldest request of the same table is dropped, then the oldest of all. In memory only; headers
 * that may hold credentials are masked before they are kept.
 */
import { randomBytes } from 'node:crypto';
import { shownRequest } from '../reject/redact.ts';
import type { Arrival } from '../types/request.ts';
import type { Target } from '../types/target.ts';
import type { Limits } from '../config/limits.ts';
import type { TableName } from '../observe/observations.ts';
import type { HeldQuestion, HeldRequest } from '../observe/tail.ts';

type HeldLimits = Pick<
  Limits,
  'heldBodyBytesMax' | 'heldTableBytesMax' | 'heldBytesMax' | 'heldCostBytes' | 'heldLookMs'
>;

/** All entries of one table, oldest first. */
interface OfTable {
  readonly target: Target;
  readonly entries: Map<string, AcceptedRequest>;
  bytes: number;
}

interface AcceptedRequest {
  readonly of: OfTable;
  readonly request: Omit<HeldRequest, 'body' | 'database' | 'schema' | 'table'>;
  /** One character per byte: for many small values this is cheaper than buffers. */
  readonly body: string;
  readonly bytes: number;
  /** What its event is called; null: not known; undefined: nobody has asked. */
  event: string | null | undefined;
}

export class AcceptedRequests {
  readonly #limits: HeldLimits;
  readonly #known: (table: TableName) => Target | null | undefined;
  /** Oldest first. */
  readonly #entries = new Map<string, AcceptedRequest>();
  readonly #tables = new Map<Target, OfTable>();
  #bytes = 0;
  /** Makes names that no other process, now or before, uses, and that nobody can guess. */
  readonly #mine = randomBytes(12).toString('base64url');
  #count = 0;
  #looking: NodeJS.Timeout | null = null;

  /** `known`: the table of this name as it is known now; another object if anything about it has changed. */
  constructor(limits: HeldLimits, known: (table: TableName) => Target | null | undefined) {
    this.#limits = limits;
    this.#known = known;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Costs one copy of the beginning of the body. */
  readonly hold = (target: Target, arrival: Arrival, body: Buffer): string => {
    const { heldBodyBytesMax, heldTableBytesMax, heldBytesMax, heldCostBytes, heldLookMs } = this.#limits;
    const { arrivedAtMs: atMs, target: requestTarget, method, rawHeaders, remoteAddress } = arrival;
    const shown = shownRequest({ target, requestTarget, method, rawHeaders, remoteAddress });
    const start = body.toString('latin1', 0, heldBodyBytesMax);
    const texts = rawHeaders.reduce((sum, text) => sum + text.length, requestTarget.length);
    const bytes = heldCostBytes + start.length + 4 * texts;
    const of = this.#tables.get(target) ?? { target, entries: new Map<string, AcceptedRequest>(), bytes: 0 };
    this.#count += 1;
    const name = `${this.#mine}.${this.#count}`;
    const request = { ...shown, atMs, bodyBytes: body.length };
    const entry: AcceptedRequest = { of, request, body: start, bytes, event: undefined };
    this.#tables.set(target, of);
    of.entries.set(name, entry);
    this.#entries.set(name, entry);
    of.bytes += bytes;
    this.#bytes += bytes;
    while (of.bytes > heldTableBytesMax) this.#forgetFirst(of.entries);
    while (this.#bytes > heldBytesMax) this.#forgetFirst(this.#entries);
    this.#looking ??= setInterval(() => this.#look(), heldLookMs).unref();
    return name;
  };

  readonly forget = (name: string): void => {
    const entry = this.#entries.get(name);
    if (entry === undefined) return;
    const { of, bytes } = entry;
    this.#entries.delete(name);
    of.entries.delete(name);
    of.bytes -= bytes;
    this.#bytes -= bytes;
    if (of.entries.size === 0) this.#tables.delete(of.target);
    if (this.#entries.size > 0 || this.#looking === null) return;
    clearInterval(this.#looking);
    this.#looking = null;
  };

  /** null: it is not known, or forgotten. */
  readonly eventOf = (name: string): string | null => {
    const entry = this.#entries.get(name);
    if (entry === undefined) return null;
    const { of, request, body } = entry;
    if (entry.event === undefined) {
      const whole = body.length === request.bodyBytes ? Buffer.from(body, 'latin1') : null;
      entry.event = of.target.sender?.event(Object.entries(request.headers).flat(), whole) ?? null;
    }
    return entry.event;
  };

  /** null: that table has no such request, or it is forgotten. */
  read({ held, database, schema, table, oid }: HeldQuestion): HeldRequest | null {
    const entry = this.#entries.get(held);
    if (entry === undefined) return null;
    const { target } = entry.of;
    const same = target.database === database && target.schema === schema && target.table === table;
    if (!same || (oid !== null && target.oid !== oid) || !this.#isCurrent(target)) return null;
    return {
      ...entry.request,
      database,
      schema,
      table,
      body: Buffer.from(entry.body, 'latin1').toString('base64'),
    };
  }

  #forgetFirst(entries: ReadonlyMap<string, AcceptedRequest>): void {
    const [first] = entries.keys();
    if (first !== undefined) this.forget(first);
  }

  #isCurrent(target: Target): boolean {
    return this.#known(target) === target;
  }

  /** Drops everything of a table that was dropped or altered, or that is no longer inspected. */
  #look(): void {
    for (const { target, entries } of this.#tables.values())
      if (!this.#isCurrent(target)) for (const name of entries.keys()) this.forget(name);
  }
}
