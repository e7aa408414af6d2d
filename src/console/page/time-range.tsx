/** The time range of a page, in its address: `range=24h`, or `from` and `until`. Counts reach back for 24 hours by the minute, and for 30 days by the hour. */
import type { JSX } from 'preact';
import type { TableRef } from '../statements.ts';
import { quantileMs, tookBoundsMs } from '../../observe/durations.ts';
import { barSOf, comparedDays, compareTraffic, readTraffic } from '../endpoint-list.ts';
import type { Span } from '../endpoint-list.ts';
import { digitsText } from '../visible-text.ts';
import { useBars } from './bars.ts';
import { boundText, momentOf, TimeChart } from './chart.tsx';
import { useRowsIf } from './load.ts';
import type { Loaded, ResultRow } from './load.ts';
import { Sql, Wrong } from './components.tsx';
import { go, route } from './route.ts';
import { dayText, minuteText } from './time-zone.ts';

const ranges = [
  ['15m', 'Last 15 minutes', 0.25],
  ['1h', 'Last hour', 1],
  ['6h', 'Last 6 hours', 6],
  ['24h', 'Last 24 hours', 24],
  ['7d', 'Last 7 days', 168],
  ['30d', 'Last 30 days', 720],
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

export function useTraffic(
  of: TableRef | null,
  range: Span,
): Loaded<readonly ResultRow[]> & { readonly sql: string } {
  const barS = barSOf(range, Date.now());
  return { ...useBars(of, range, barS), sql: readTraffic(of, range, barS) };
}

interface Sums {
  readonly stored: number;
  /** Of those stored: kept on disk first. */
  readonly spooled: number;
  readonly unauthorized: number;
  readonly refused: number;
  readonly unavailable: number;
  readonly all: number;
  readonly p50: string;
  readonly p99: string;
}

export function sumsOf(rows: readonly ResultRow[]): Sums {
  const sum = (name: string): number => rows.reduce((all, row) => all + Number(row[name] ?? 0), 0);
  const tooks = rows.map((row) => JSON.parse(row['took'] ?? '[]') as number[]);
  const took = [...tookBoundsMs, 0].map((_, i) => tooks.reduce((all, it) => all + (it[i] ?? 0), 0));
  const bound = (part: number): string => {
    const ms = quantileMs(took, part);
    return boundText(ms === null ? null : String(ms));
  };
  const counts = {
    stored: sum('stored'),
    unauthorized: sum('unauthorized'),
    refused: sum('refused'),
    unavailable: sum('unavailable'),
  };
  const all = Object.values(counts).reduce((one, other) => one + other, 0);
  return { ...counts, spooled: sum('spooled'), all, p50: bound(0.5), p99: bound(0.99) };
}

interface Compared {
  readonly sql: string | null;
  /** “▲ 8 % on the day before”; null: there is no day before, or it is not known whole. */
  readonly note: JSX.Element | null;
}

/** A range of one or seven days until now, beside as many days before. */
export function useCompared(of: TableRef | null, { hours, fromMs }: Span): Compared {
  const days = fromMs === null ? comparedDays.find((it) => it * 24 === hours) : undefined;
  const sql = days === undefined ? null : compareTraffic(of, days);
  const { requests, before, known } = useRowsIf(sql, 5 * 60_000).value?.[0] ?? {};
  if (known !== 't' || before === '0') return { sql, note: null };
  const percent = Math.round((100 * Number(requests)) / Number(before)) - 100;
  const figure = `${digitsText(String(Math.abs(percent)))} %`;
  const day = days === 1 ? 'the day before' : 'the week before';
  const [sign, words] = percent < 0 ? ['▼', 'down '] : ['▲', 'up '];
  const note = (
    <span title={`By whole hours: ${digitsText(requests ?? '')}, after ${digitsText(before ?? '')}`}>
      {percent === 0 ? (
        `as many as ${day}`
      ) : (
        <>
          <span aria-hidden="true">{sign} </span>
          <span class="unseen">{words}</span>
          {figure} on {day}
        </>
      )}
    </span>
  );
  return { sql, note };
}

interface TrafficProps {
  readonly of: TableRef | null;
  readonly range: Range;
  readonly loaded: ReturnType<typeof useTraffic>;
  /** Its note stands here unless it is null. */
  readonly compared: Compared;
}

export function barText(barMs: number): string {
  const [unit, size] = barMs < 3_600_000 ? (['minute', 60_000] as const) : (['hour', 3_600_000] as const);
  const count = barMs / size;
  return count === 1 ? `${unit === 'hour' ? 'an' : 'a'} ${unit}` : `${count} ${unit}s`;
}

/** The chart of a page, which changes the range of its address. */
export function Traffic({ of, range, loaded, compared }: TrafficProps): JSX.Element {
  const barMs = barSOf(range, Date.now()) * 1_000;
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
        <span class="faint">
          a bar is {barText(barMs)}
          {compared.note === null ? null : <> · {compared.note}</>}
        </span>
      </h2>
      <Sql text={[loaded.sql, ...(compared.sql === null ? [] : [compared.sql])].join(';\n\n')} />
      {loaded.failure === null ? null : <Wrong failure={loaded.failure} />}
      <TimeChart
        moments={loaded.value?.map(momentOf) ?? null}
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
    </section>
  );
}
