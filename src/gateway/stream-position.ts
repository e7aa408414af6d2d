/**
 * How far a reader has read a table: for each part of its file, the transactions (kit/position.ts) of which all rows were
 * read. New rows mostly lie at the end of the file, so the end is read often and the rest rarely, and nothing is skipped: the
 * parts cover the whole file. Takes and returns places; refuses (null) any other text. Pure.
 */
import {
  allBelow,
  both,
  either,
  endedForm,
  isBeyond,
  isSame,
  parseEnded,
  printEnded,
} from '../kit/position.ts';
import type { Ended } from '../kit/position.ts';

/** A row's address: its block, times 65536, plus its number within the block. */
export type RowAddress = number;

/** Rows from `at` up to the next part are read if their transaction had ended; below 0: none. */
export interface PositionRange {
  readonly at: RowAddress;
  readonly ended: Ended;
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
  /** null: none had. */
  readonly since: Ended | null;
  readonly until: Ended;
}

export const blockOf = (at: RowAddress): number => Math.floor(at / 65_536);
export const addressOf = (block: number, row = 0): RowAddress => block * 65_536 + row;

/** PostgreSQL's `(block,row)`; never throws, because PostgreSQL wrote it. */
export function parseAddress(text: string): RowAddress {
  const [, block = '0', row = '0'] = /^\((\d+),(\d+)\)$/.exec(text) ?? [];
  return addressOf(Number(block), Number(row));
}

export const printAddress = (at: RowAddress): string => `(${blockOf(at)},${at % 65_536})`;

export const wholly = (oid: number, file: number, ended: Ended): StreamPosition => ({
  oid,
  file,
  parts: [{ at: 0, ended }],
});

/** Records that `from` up to `to` has been read up to `until`, unless it was read further already. */
export function advanced(
  place: StreamPosition,
  from: RowAddress,
  to: RowAddress,
  until: Ended,
): StreamPosition {
  const { parts } = place;
  const cuts = new Set([...parts.map(({ at }) => at), from, to]);
  const next: PositionRange[] = [];
  for (const at of [...cuts].filter(Number.isFinite).toSorted((a, b) => a - b)) {
    const before = endedAt(place, at);
    const ended = at >= from && at < to && isBeyond(until, before) ? either(until, before) : before;
    const last = next.at(-1);
    if (last === undefined || !isSame(last.ended, ended)) next.push({ at, ended });
  }
  return { ...place, parts: next };
}

const none = allBelow(0n);

export function endedAt({ parts }: StreamPosition, at: RowAddress): Ended {
  return parts.findLast((part) => part.at <= at)?.ended ?? none;
}

/** The first part of the file in which `goal` is further than `place`; null: none. */
export function gapTo(place: StreamPosition, goal: StreamPosition): UnreadRange | null {
  const cuts = [...new Set([...place.parts, ...goal.parts].map(({ at }) => at))].toSorted((a, b) => a - b);
  let gap: UnreadRange | null = null;
  for (const at of cuts) {
    const since = endedAt(place, at);
    const until = endedAt(goal, at);
    if (gap !== null) {
      if (!isSame(since, gap.since ?? none) || !isSame(until, gap.until)) return { ...gap, to: at };
    } else if (isBeyond(until, since))
      gap = { from: at, to: Infinity, since: since.xid === 0n ? null : since, until };
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

/** What was read in every part. */
export const readEverywhere = ({ parts }: StreamPosition): Ended =>
  parts.reduce((all, { ended }) => both(all, ended), parts[0]?.ended ?? none);

export const furthestXid = ({ parts }: StreamPosition): bigint =>
  parts.reduce((most, { ended }) => (ended.xid > most ? ended.xid : most), 0n);

const partsMax = 64;
const form = new RegExp(String.raw`^(\d{1,10})\.(\d{1,10})-(${endedForm})((?:-\d{1,15}\.${endedForm})*)$`);

export function printPlace({ oid, file, parts }: StreamPosition): string {
  const [first, ...rest] = parts;
  const others = rest.map(({ at, ended }) => `-${at}.${printEnded(ended)}`);
  return `${oid}.${file}-${printEnded(first?.ended ?? none)}${others.join('')}`;
}

/** null: the text is no place. */
export function parsePlace(text: string): StreamPosition | null {
  const [whole, oid, file, ended = '0', rest = ''] = form.exec(text) ?? [];
  if (whole === undefined) return null;
  const parts: PositionRange[] = [{ at: 0, ended: parseEnded(ended) }];
  for (const pair of rest.split('-').slice(1)) {
    const [at = '0', of = '0'] = pair.split('.');
    if (Number(at) <= (parts.at(-1)?.at ?? 0) || parts.length >= partsMax) return null;
    parts.push({ at: Number(at), ended: parseEnded(of) });
  }
  // PostgreSQL's addresses have at most 32 bits of blocks.
  if ((parts.at(-1)?.at ?? 0) >= addressOf(2 ** 32)) return null;
  return { oid: Number(oid), file: Number(file), parts };
}
