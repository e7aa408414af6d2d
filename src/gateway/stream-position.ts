/**
 * How far a reader has read a table: for each part of its file, the PostgreSQL transaction number (kit/position.ts) up to which it
 * was read. New rows mostly lie at the end of the file, so the end is read often and the rest rarely, and nothing is skipped: the
 * parts cover the whole file. Takes and returns places; refuses (null) any other text. Pure.
 */

/** A row's address: its block, times 65536, plus its number within the block. */
export type RowAddress = number;

/** Rows from `at` up to the next part are read up to the transaction `xid`; 0: not at all. */
export interface PositionRange {
  readonly at: RowAddress;
  readonly xid: bigint;
}

export interface StreamPosition {
  readonly oid: number;
  /** The file of the table: after a rewrite, its rows have other addresses. */
  readonly file: number;
  /** By address; the first part starts at 0. */
  readonly parts: readonly PositionRange[];
}

/** What is still to be read. */
export interface UnreadRange {
  readonly from: RowAddress;
  /** Infinity: the end of the file, wherever it is. */
  readonly to: RowAddress;
  /** null: from the very first transaction. */
  readonly since: bigint | null;
  readonly until: bigint;
}

export const blockOf = (at: RowAddress): number => Math.floor(at / 65_536);
export const addressOf = (block: number, row = 0): RowAddress => block * 65_536 + row;

/** PostgreSQL's `(block,row)`; never throws, because PostgreSQL wrote it. */
export function parseAddress(text: string): RowAddress {
  const [, block = '0', row = '0'] = /^\((\d+),(\d+)\)$/.exec(text) ?? [];
  return addressOf(Number(block), Number(row));
}

export const printAddress = (at: RowAddress): string => `(${blockOf(at)},${at % 65_536})`;

export const wholly = (oid: number, file: number, xid: bigint): StreamPosition => ({
  oid,
  file,
  parts: [{ at: 0, xid }],
});

/** Records that `from` up to `to` has been read up to `until`, unless it was read further already. */
export function advanced(
  place: StreamPosition,
  from: RowAddress,
  to: RowAddress,
  until: bigint,
): StreamPosition {
  const { parts } = place;
  const cuts = new Set([...parts.map(({ at }) => at), from, to]);
  const next: PositionRange[] = [];
  for (const at of [...cuts].filter(Number.isFinite).toSorted((a, b) => a - b)) {
    const before = xidAt(place, at);
    const xid = at >= from && at < to && before < until ? until : before;
    if (next.at(-1)?.xid !== xid) next.push({ at, xid });
  }
  return { ...place, parts: next };
}

export function xidAt({ parts }: StreamPosition, at: RowAddress): bigint {
  return parts.findLast((part) => part.at <= at)?.xid ?? 0n;
}

/** The first part of the file in which `goal` is further than `place`; null: none. */
export function gapTo(place: StreamPosition, goal: StreamPosition): UnreadRange | null {
  const cuts = [...new Set([...place.parts, ...goal.parts].map(({ at }) => at))].toSorted((a, b) => a - b);
  let gap: UnreadRange | null = null;
  for (const at of cuts) {
    const since = xidAt(place, at);
    const until = xidAt(goal, at);
    if (gap !== null) {
      if (since !== (gap.since ?? 0n) || until !== gap.until) return { ...gap, to: at };
    } else if (since < until) gap = { from: at, to: Infinity, since: since === 0n ? null : since, until };
  }
  return gap;
}

/** The two adjacent parts before `end` that are smallest together, as one range; null: there are fewer than two. */
export function cheapestPair(
  { parts }: StreamPosition,
  end: RowAddress,
): { from: RowAddress; to: RowAddress } | null {
  let cheapest: { from: RowAddress; to: RowAddress } | null = null;
  for (const [index, { at: from }] of parts.entries()) {
    const [second, third] = [parts[index + 1]?.at ?? Infinity, parts[index + 2]?.at ?? Infinity];
    const to = Math.min(third, end);
    if (second >= end) break;
    if (cheapest === null || to - from < cheapest.to - cheapest.from) cheapest = { from, to };
  }
  return cheapest;
}

/** Of the part that lags furthest behind. */
export const leastXid = ({ parts }: StreamPosition): bigint =>
  parts.reduce((least, { xid }) => (xid < least ? xid : least), parts[0]?.xid ?? 0n);

export const furthestXid = ({ parts }: StreamPosition): bigint =>
  parts.reduce((most, { xid }) => (xid > most ? xid : most), 0n);

const partsMax = 64;
const form = /^(\d{1,10})\.(\d{1,10})-(\d{1,19})((?:-\d{1,15}\.\d{1,19})*)$/;

export function printPlace({ oid, file, parts }: StreamPosition): string {
  const [first, ...rest] = parts;
  return `${oid}.${file}-${first?.xid ?? 0n}${rest.map(({ at, xid }) => `-${at}.${xid}`).join('')}`;
}

/** null: the text is no place. */
export function parsePlace(text: string): StreamPosition | null {
  const [whole, oid, file, xid = '0', rest = ''] = form.exec(text) ?? [];
  if (whole === undefined) return null;
  const parts: PositionRange[] = [{ at: 0, xid: BigInt(xid) }];
  for (const pair of rest.split('-').slice(1)) {
    const [at = '0', of = '0'] = pair.split('.');
    if (Number(at) <= (parts.at(-1)?.at ?? 0) || parts.length >= partsMax) return null;
    parts.push({ at: Number(at), xid: BigInt(of) });
  }
  // PostgreSQL's addresses have at most 32 bits of blocks.
  if ((parts.at(-1)?.at ?? 0) >= addressOf(2 ** 32)) return null;
  return { oid: Number(oid), file: Number(file), parts };
}
