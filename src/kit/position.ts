/**
 * How far a table was read: a transaction number of PostgreSQL below which all transactions have ended. Rows of transactions
 * from one position up to the next are new, each once, in whatever order they were committed; an updated row is new again. A transaction
 * that writes and stays open holds a number where it is, but not an `Ended`, which names it. Queries the database through the functions it is given.
 *
 * Rows hold the last 32 bits of the number, so a row stored 2^32 transactions ago looks new again.
 */
import { setTimeout as pause } from 'node:timers/promises';

/** The transactions that had ended at one moment: all below `xid`, except `open`. */
export interface Ended {
  readonly xid: bigint;
  /** In ascending order, all below `xid`; numbers of subtransactions too. */
  readonly open: readonly bigint[];
}

/** An `Ended` names this many open ones at most, and ends before the next one. */
const openMax = 32;

export const allBelow = (xid: bigint): Ended => ({ xid, open: [] });

/** `open`: in any order, also twice, and beyond `xid`. */
export function endedBelow(xid: bigint, open: Iterable<bigint>): Ended {
  const sorted = [...new Set(open)].filter((it) => it < xid).toSorted((a, b) => (a < b ? -1 : 1));
  return { xid: sorted[openMax] ?? xid, open: sorted.slice(0, openMax) };
}

export const hasEnded = ({ xid, open }: Ended, it: bigint): boolean => it < xid && !open.includes(it);

export const isSame = (a: Ended, b: Ended): boolean =>
  a.xid === b.xid && a.open.length === b.open.length && a.open.every((it, at) => it === b.open[at]);

/** Whether some have ended that had not. */
export const isBeyond = (later: Ended, earlier: Ended): boolean =>
  later.xid > earlier.xid || earlier.open.some((it) => hasEnded(later, it));

/** Those of either. */
export function either(a: Ended, b: Ended): Ended {
  const [low, high] = a.xid < b.xid ? [a, b] : [b, a];
  return { xid: high.xid, open: high.open.filter((it) => !hasEnded(low, it)) };
}

/** Those of both. */
export const both = (a: Ended, b: Ended): Ended =>
  endedBelow(a.xid < b.xid ? a.xid : b.xid, [...a.open, ...b.open]);

/** `123`, or `123~a~3` if 113 and 120 were open: the distances in base 36. */
export const printEnded = ({ xid, open }: Ended): string =>
  `${xid}${open.map((it) => `~${(xid - it).toString(36)}`).join('')}`;

export const endedForm = String.raw`\d{1,19}(?:~[0-9a-z]{1,11}){0,${openMax}}`;

/** Of a text in that form. */
export function parseEnded(text: string): Ended {
  const [number = '0', ...distances] = text.split('~');
  const xid = BigInt(number);
  return endedBelow(
    xid,
    distances.map((it) => xid - BigInt(Number.parseInt(it, 36))),
  );
}

/** How many numbers one look asks about at most. */
const askedMax = 10_000;

/** What `nowColumns` return. */
export interface NowColumns {
  readonly oldest: string;
  readonly begun: string;
  readonly until: string;
  readonly open: string | null;
  readonly written: string | null;
  readonly flushed: string | null;
}

export interface TransactionsNow {
  readonly ended: Ended;
  /** All below it have ended. */
  readonly oldest: bigint;
  /** None from it on had begun. */
  readonly next: bigint;
}

/**
 * The columns of a query, as text, in the order in which they must be computed: the oldest open transaction, how many numbers from it on are in use, which
 * of them are still open, how much log there is, and how much of it is on the disk, in bytes (null: on a standby, where all is). `known`: what had ended before.
 *
 * A snapshot names no subtransactions, and pg_xact_status() knows them all. What has ended by its word is visible to every later snapshot.
 */
export function nowColumns(known: Ended | null): string {
  const int8 = '::pg_catalog.text::pg_catalog.int8';
  const snapshot = 'pg_catalog.pg_current_snapshot()';
  const oldest = `pg_catalog.pg_snapshot_xmin(${snapshot})`;
  const from = `greatest(${oldest}${int8}, ${known?.xid ?? 0n})`;
  const until = `greatest(least(pg_catalog.pg_snapshot_xmax(${snapshot})${int8}, ${from} + ${askedMax}), ${from})`;
  const log = (place: string): string =>
    `case when not pg_catalog.pg_is_in_recovery() then pg_catalog.pg_wal_lsn_diff(pg_catalog.${place}, '0/0')::pg_catalog.text end`;
  return `${oldest}::pg_catalog.text as oldest,
    pg_catalog.age(pg_catalog.mod(${oldest}::pg_catalog.text::pg_catalog.numeric, 4294967296)::pg_catalog.text::pg_catalog.xid)::pg_catalog.text as begun,
    (${until})::pg_catalog.text as until,
    (select pg_catalog.string_agg(n::pg_catalog.text, ' ') from (
      select pg_catalog.unnest('{${(known?.open ?? []).join(',')}}'::pg_catalog.int8[]) as n
      union all select pg_catalog.generate_series(${from}, ${until} - 1)) as asked
      where pg_catalog.pg_xact_status(n::pg_catalog.text::pg_catalog.xid8) = 'in progress') as open,
    ${log('pg_current_wal_insert_lsn()')} as written, ${log('pg_current_wal_flush_lsn()')} as flushed`;
}

export function transactionsOf({ oldest, begun, until, open }: NowColumns): TransactionsNow {
  const numbers = (open ?? '').split(' ').filter(Boolean).map(BigInt);
  return {
    ended: endedBelow(BigInt(until), numbers),
    oldest: BigInt(oldest),
    next: BigInt(oldest) + BigInt(begun),
  };
}

/**
 * A session that only reads may write to the log, too (it removes dead rows), and nobody waits for that: if nothing commits, it reaches
 * the disk late. A transaction with a number and nothing else makes the server write the log soon, and waits for nothing itself, not even a standby.
 */
const flushSoon = 'SELECT pg_catalog.pg_current_xact_id()';

/** How much log there is, and how much of it is on the disk; null: on a standby. */
interface LogNow {
  readonly written: string | null;
  readonly flushed: string | null;
}

interface FlushBounds {
  readonly streamFlushMs: number;
  readonly streamFlushPauseMs: number;
  /** After how long the server is asked to write the log. */
  readonly streamFlushAskMs: number;
}

/**
 * Returns the first answer once the log that existed then is on the disk: after a crash, later numbers may be given out again. null: it takes
 * too long. `run` runs a statement whose result is ignored.
 */
export async function onceOnDisk<T extends LogNow>(
  ask: () => Promise<T>,
  run: (sql: string) => Promise<unknown>,
  { streamFlushMs, streamFlushPauseMs, streamFlushAskMs }: FlushBounds,
): Promise<T | null> {
  const first = await ask();
  const written = BigInt(first.written ?? 0);
  let now: LogNow = first;
  for (let waitedMs = 0; BigInt(now.flushed ?? 0) < written; waitedMs += streamFlushPauseMs) {
    if (waitedMs > streamFlushMs) return null;
    if (waitedMs === streamFlushAskMs) await run(flushSoon);
    await pause(streamFlushPauseMs);
    now = await ask();
  }
  return first;
}

/** The largest distance that age() can tell, in transactions. */
export const distanceMax = 2n ** 31n - 1n;

/** A WHERE condition on the rows of `t`: of transactions that have ended since. `from` null, or too far away for age(), means all of `until`. */
export function endedSince(from: Ended | null, until: Ended): string {
  const isNear = from !== null && until.xid - from.xid <= distanceMax;
  const written = writtenBetween(isNear ? from.xid : null, until.xid);
  const others = (isNear ? from.open : []).filter((it) => hasEnded(until, it));
  const open = until.open.filter((it) => !isNear || it >= from.xid);
  const found = others.length === 0 ? written : `(${written} OR t.xmin = ANY (${xidsOf(others)}))`;
  return open.length === 0 ? found : `${found} AND t.xmin <> ALL (${xidsOf(open)})`;
}

const xidsOf = (numbers: readonly bigint[]): string =>
  `'{${numbers.map((it) => it % 4_294_967_296n).join(',')}}'::pg_catalog.xid[]`;

/** The same for rows of all transactions from `from` up to `until`. */
export function writtenBetween(from: bigint | null, until: bigint): string {
  if (from === null || until - from > distanceMax)
    return `pg_catalog.age(t.xmin) NOT BETWEEN 0 AND ${ageOf(until)}`;
  return `pg_catalog.age(t.xmin) <= ${ageOf(from)} AND pg_catalog.age(t.xmin) > ${ageOf(until)}`;
}

/** Numbers below 3 are special, and have no age. */
function ageOf(position: bigint): string {
  const low = position % 4_294_967_296n;
  return `pg_catalog.age('${low < 3n ? 3n : low}'::pg_catalog.xid)`;
}

/** null: the text is no position. */
export function parsePosition(text: string): bigint | null {
  return /^\d{1,19}$/.test(text.trim()) ? BigInt(text.trim()) : null;
}
