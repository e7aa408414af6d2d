/**
 * Above the list of requests: those of its range of time as bars, by the counts of its endpoint (`headgate.traffic`), or, if the filters are about
 * single requests, by the refused ones that are kept (`headgate.rejected_requests`). A click or a drag sets the range.
 */
import type { JSX } from 'preact';
import type { ListCounts } from '../api.ts';
import { barSOf } from '../endpoint-list.ts';
import type { Span } from '../endpoint-list.ts';
import { filterOf, ranges } from '../list-address.ts';
import type { ListAddress } from '../list-address.ts';
import { countByTime } from '../request-statements.ts';
import { useBars } from './bars.ts';
import { momentOf, TimeChart } from './chart.tsx';
import { useRefreshed, useRowsIf } from './load.ts';
import type { ResultRow } from './load.ts';
import { barText } from './time-range.tsx';

const dayMs = 86_400_000;

interface Props {
  readonly address: ListAddress;
  /** Of the list; null: not counted yet. */
  readonly counts: ListCounts | null;
  readonly set: (change: Partial<ListAddress>) => void;
}

export function ListChart({ address, counts, set }: Props): JSX.Element | null {
  const count = counts === null ? null : Object.values(counts.by).reduce((sum, n) => sum + n, 0);
  const nowMs = Date.now();
  const { fromMs: since, untilMs: end } = filterOf(address, nowMs);
  const untilMs = end === 0 ? nowMs : end;
  const fromMs = since === 0 ? untilMs - dayMs : since;
  const hours = (untilMs - fromMs) / 3_600_000;
  const barMs = barSOf({ hours, fromMs, untilMs }, nowMs) * 1_000;
  const isUpToNow = end === 0 && (since === 0 || Object.hasOwn(ranges, address.range));
  const span = { hours, fromMs: isUpToNow ? null : fromMs, untilMs: end === 0 ? null : end };
  const by = fromMs < untilMs ? countedBy(address) : null;
  const { schema, table } = address;
  const all = useBars(table === '' ? null : { schema, table }, by === 'table' ? span : null, barMs / 1_000);
  // A long bar changes slowly, unless the list has other requests than before.
  const kept = useRowsIf(by === 'request' ? sqlOf(address, span, barMs) : null, Math.max(15_000, barMs / 15));
  const loaded = by === 'table' ? all : kept;
  // The list counts every ten seconds; what it counted first is in the bars already.
  useRefreshed(loaded, JSON.stringify(address), count);
  const rows = loaded.value;
  if (by === null) return null;
  const iso = (ms: number): string => new Date(ms).toISOString();
  const show = (from: number, until: number): void => set({ range: '', from: iso(from), until: iso(until) });
  return (
    <div class="list-chart">
      <TimeChart
        isLow
        moments={rows?.map((row) => momentOf(only(row, address.result))) ?? null}
        fromMs={fromMs}
        untilMs={untilMs}
        barMs={barMs}
        label={`These requests by time, a bar is ${barText(barMs)}`}
        open={show}
        zoom={show}
      />
    </div>
  );
}

/** null: they are not counted by time. */
function countedBy(address: ListAddress): 'table' | 'request' | null {
  const { result, code, sender, event, stored, checked, cause, q } = address;
  if (q !== '' || result === 'handshake') return null;
  if (code + sender + event + stored + checked + cause === '') return 'table';
  return result === '' || result === 'refused' ? 'request' : null;
}

/** The refused ones that are kept. */
function sqlOf(address: ListAddress, span: Span, barMs: number): string {
  // The text of the statement stays the same while the bar does.
  const untilMs = Math.ceil(Date.now() / barMs) * barMs;
  const from = span.fromMs ?? untilMs - span.hours * 3_600_000;
  const filter = { ...filterOf(address, untilMs), fromMs: Math.floor(from / barMs) * barMs };
  return countByTime(filter, barMs / 1_000);
}

const counted: Readonly<Record<string, readonly string[]>> = {
  stored: ['stored'],
  spooled: ['stored', 'spooled'],
  refused: ['unauthorized', 'refused'],
  later: ['unavailable'],
};

/** The counts of one result. */
function only(row: ResultRow, result: string): ResultRow {
  const names = Object.hasOwn(counted, result) ? counted[result] : undefined;
  if (names === undefined) return row;
  const kept = Object.fromEntries(names.map((name) => [name, row[name] ?? null]));
  return {
    ...kept,
    ...(result === 'spooled' ? { stored: row['spooled'] ?? null } : {}),
    at: row['at'] ?? null,
  };
}
