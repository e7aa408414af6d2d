/**
 * What accepted requests held, of tables whose owners want to look at it (`inspect = 'bodies'`). Takes requests that were
 * stored; gives one to who names it and may read its table, for as long as the ring remembers its outcome and the table is what
 * it was. Refuses nothing: what does not fit takes the place of the oldest of its table, then of the oldest of all. In memory alone;
 * headers that may hold credentials are masked before they are kept.
 */
import { randomBytes } from 'node:crypto';
import { shownRequest } from '../reject/description.ts';
import type { Arrival, Target } from '../tables/flow.ts';
import type { Limits } from '../tables/limits.ts';
import type { TableName } from '../tables/observations.ts';
import type { HeldQuestion, HeldRequest } from '../tables/tail.ts';

type HeldLimits = Pick<
  Limits,
  'heldBodyBytesMax' | 'heldTableBytesMax' | 'heldBytesMax' | 'heldCostBytes' | 'heldLookMs'
>;

/** All of one table, the oldest first. */
interface OfTable {
  readonly target: Target;
  readonly entries: Map<string, Entry>;
  bytes: number;
}

interface Entry {
  readonly of: OfTable;
  readonly request: Omit<HeldRequest, 'body' | 'database' | 'schema' | 'table'>;
  readonly body: Buffer;
  readonly bytes: number;
}

export class Held {
  readonly #limits: HeldLimits;
  readonly #known: (table: TableName) => Target | null | undefined;
  /** The oldest first. */
  readonly #entries = new Map<string, Entry>();
  readonly #tables = new Map<Target, OfTable>();
  #bytes = 0;
  /** No other process, now or before, gives the same names, and nobody can guess one. */
  readonly #mine = randomBytes(12).toString('base64url');
  #count = 0;
  #looking: NodeJS.Timeout | null = null;

  /** `known`: the table of this name as it is known now; another object when anything of it has changed. */
  constructor(limits: HeldLimits, known: (table: TableName) => Target | null | undefined) {
    this.#limits = limits;
    this.#known = known;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Costs a copy of the body's beginning. */
  readonly hold = (target: Target, arrival: Arrival, body: Buffer): string => {
    const { heldBodyBytesMax, heldTableBytesMax, heldBytesMax, heldCostBytes, heldLookMs } = this.#limits;
    const { arrivedAtMs: atMs, target: requestTarget, method, rawHeaders, remoteAddress } = arrival;
    const shown = shownRequest({ target, requestTarget, method, rawHeaders, remoteAddress });
    // A slice would keep the whole body in memory.
    const start = Buffer.allocUnsafeSlow(Math.min(body.length, heldBodyBytesMax));
    body.copy(start);
    const texts = rawHeaders.reduce((sum, text) => sum + text.length, requestTarget.length);
    const bytes = heldCostBytes + start.length + 4 * texts;
    const of = this.#tables.get(target) ?? { target, entries: new Map<string, Entry>(), bytes: 0 };
    this.#count += 1;
    const name = `${this.#mine}.${this.#count}`;
    const entry = { of, request: { ...shown, atMs, bodyBytes: body.length }, body: start, bytes };
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

  /** null: there is none of that name in that table, or it is forgotten. */
  read({ held, database, schema, table, oid }: HeldQuestion): HeldRequest | null {
    const entry = this.#entries.get(held);
    if (entry === undefined) return null;
    const { target } = entry.of;
    const same = target.database === database && target.schema === schema && target.table === table;
    if (!same || (oid !== null && target.oid !== oid) || !this.#isCurrent(target)) return null;
    return { ...entry.request, database, schema, table, body: entry.body.toString('base64') };
  }

  #forgetFirst(entries: ReadonlyMap<string, Entry>): void {
    const [first] = entries.keys();
    if (first !== undefined) this.forget(first);
  }

  #isCurrent(target: Target): boolean {
    return this.#known(target) === target;
  }

  /** Of a table that was dropped, altered or is not to be looked at any more nothing stays. */
  #look(): void {
    for (const { target, entries } of this.#tables.values())
      if (!this.#isCurrent(target)) for (const name of entries.keys()) this.forget(name);
  }
}
