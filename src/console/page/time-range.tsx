/** The time range of a page, in its address: `range=24h`, or `from` and `until`. Counts reach back for 24 hours. */
import type { JSX } from 'preact';
import type { TableRef } from '../statements.ts';
import { readTraffic } from '../endpoint-list.ts';
import type { Span } from '../endpoint-list.ts';
import { digitsText } from '../visible-text.ts';
import { boundText, momentOf, TimeChart } from './chart.tsx';
import { useRows } from './load.ts';
import type { Loaded, ResultRow } from './load.ts';
import { Sql, Wrong } from './components.tsx';
import { go, route } from './route.ts';
import { dayText, minuteText } from './time-zone.ts';

const ranges = [
  ['15m', 'Last 15 minutes', 0.25],
  ['1h', 'Last hour', 1],
  ['6h', 'Last 6 hours', 6],
  ['24h', 'Last 24 hours', 24],
] as const;

interface Range extends Span {
  readonly id: string;
  readonly label: string;
}

export function rangeOf(query: URLSearchParams, usual: string): Range {
  const [fromMs, untilMs] = ['from', 'until'].map((name) => Date.parse(query.get(name) ?? ''));
  if (fromMs !== undefined && untilMs !== undefined && untilMs > fromMs) {
    const label = `${dayText(fromMs)} ${minuteText(fromMs)} – ${minuteText(untilMs)}`;
    return { id: '', label, hours: (untilMs - fromMs) / 3_600_000, fromMs, untilMs };
  }
  const wanted = query.get('range') ?? usual;
  const [id, label, hours] = ranges.find(([it]) => it === wanted) ?? ranges[3];
  return { id, label, hours, fromMs: null, untilMs: null };
}

/** The present address with another range. */
function goToRange(change: Readonly<Record<string, string>>): void {
  const { parts, query } = route.value;
  go(parts, { ...Object.fromEntries(query), range: '', from: '', until: '', ...change });
}

export function RangeMenu({ range }: { readonly range: Range }): JSX.Element {
  return (
    <label>
      <span class="unseen">Time range</span>
      <select value={range.id} onChange={(event) => goToRange({ range: event.currentTarget.value })}>
        {range.id === '' ? <option value="">{range.label}</option> : null}
        {ranges.map(([id, label]) => (
          <option key={id} value={id}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Some 60 to 100 bars, of whole minutes. */
const barSOf = ({ hours }: Span): number => [60, 300, 900].find((s) => (hours * 3_600) / s <= 100) ?? 900;

export function useTraffic(
  of: TableRef | null,
  range: Span,
): Loaded<readonly ResultRow[]> & { readonly sql: string } {
  const sql = readTraffic(of, range, barSOf(range));
  return { ...useRows(sql, 15_000), sql };
}

export interface Sums {
  readonly stored: number;
  readonly unauthorized: number;
  readonly refused: number;
  readonly unavailable: number;
  readonly all: number;
  readonly p50: string;
  readonly p99: string;
}

export function sumsOf(rows: readonly ResultRow[]): Sums {
  const sum = (name: string): number => rows.reduce((all, row) => all + Number(row[name] ?? 0), 0);
  const worst = (name: string): string => {
    const values = rows.flatMap((row) => row[name] ?? []);
    return boundText(values.toSorted((a, b) => Number(b) - Number(a))[0] ?? null);
  };
  const [stored, unauthorized, refused, unavailable] = [
    sum('stored'),
    sum('unauthorized'),
    sum('refused'),
    sum('unavailable'),
  ];
  const all = stored + unauthorized + refused + unavailable;
  return { stored, unauthorized, refused, unavailable, all, p50: worst('p50_ms'), p99: worst('p99_ms') };
}

interface TrafficProps {
  readonly of: TableRef | null;
  readonly range: Range;
  readonly loaded: ReturnType<typeof useTraffic>;
}

/** The chart of a page, which changes the range of its address. */
export function Traffic({ of, range, loaded }: TrafficProps): JSX.Element {
  const barMs = barSOf(range) * 1_000;
  const untilMs = range.untilMs ?? Date.now();
  const fromMs = range.fromMs ?? untilMs - range.hours * 3_600_000;
  const { stored, unauthorized, refused, unavailable } = sumsOf(loaded.value ?? []);
  const iso = (ms: number): string => new Date(ms).toISOString();
  const figures = [
    [stored, 'stored'],
    [unauthorized, 'with 401'],
    [refused, 'other refusals'],
    [unavailable, 'told to come again'],
  ].map(([count, what]) => `${digitsText(String(count))} ${what}`);
  return (
    <section class="card traffic">
      <h2>
        Requests{' '}
        <span class="faint">a bar is {barMs === 60_000 ? 'a minute' : `${barMs / 60_000} minutes`}</span>
      </h2>
      {loaded.failure === null ? null : <Wrong failure={loaded.failure} />}
      <TimeChart
        moments={(loaded.value ?? []).map(momentOf)}
        fromMs={fromMs}
        untilMs={untilMs}
        barMs={barMs}
        label={`Requests, ${range.label.toLowerCase()}: ${figures.join(', ')}`}
        zoom={(from, until) => goToRange({ from: iso(from), until: iso(until) })}
        open={(from, until) =>
          go(['requests'], {
            schema: of?.schema ?? '',
            table: of?.table ?? '',
            from: iso(from),
            until: iso(until),
          })
        }
      />
      <Sql text={loaded.sql} />
    </section>
  );
}
