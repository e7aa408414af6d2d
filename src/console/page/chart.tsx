/**
 * Requests over time as bars, from `headgate.traffic`: stored, refused, and told to retry. The list of endpoints shows a small
 * chart, an endpoint's page the large one, with figures for readers who cannot see the bars.
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { digitsText } from '../shown.ts';
import { readTraffic } from '../statements.ts';
import type { TableRef } from '../statements.ts';
import { useRows } from './load.ts';
import type { Row } from './load.ts';
import { Figure } from './overview.tsx';
import { Sql, Wrong } from './parts.tsx';

export interface Bar {
  /** How many bars ago: 0 is the current one. */
  readonly ago: number;
  readonly good: number;
  readonly bad: number;
  readonly later: number;
}

/** Each is `how long ago,stored,refused,unavailable`, as returned by `listTraffic`. */
export function barsOf(day: string): readonly Bar[] {
  return day.split(' ').flatMap((text) => {
    const [ago = NaN, good = 0, bad = 0, later = 0] = text.split(',').map(Number);
    return Number.isNaN(ago) ? [] : [{ ago, good, bad, later }];
  });
}

interface BarsProps {
  readonly bars: readonly Bar[];
  readonly count: number;
  readonly height: number;
  readonly label: string;
}

export function Bars({ bars, count, height, label }: BarsProps): JSX.Element {
  const most = Math.max(1, ...bars.map(({ good, bad, later }) => good + bad + later));
  const shown = bars.filter(({ ago }) => ago >= 0 && ago < count);
  return (
    <svg
      class="bars"
      viewBox={`0 0 ${count} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {shown.map(({ ago, good, bad, later }) => {
        let top = height;
        return (
          [
            ['good', good],
            ['bad', bad],
            ['warn', later],
          ] as const
        ).map(([kind, requests]) => {
          // One request of a million must be visible, too.
          const size = requests === 0 ? 0 : Math.max(1, (requests / most) * height);
          top -= size;
          return size === 0 ? null : (
            <rect
              key={kind}
              class={kind}
              x={count - 1 - ago + 0.1}
              y={Math.max(0, top)}
              width={0.8}
              height={size}
            />
          );
        });
      })}
    </svg>
  );
}

const spans = {
  1: { minutes: 1, label: 'the last hour, by minute' },
  24: { minutes: 15, label: 'the last 24 hours' },
};

const barOf = (row: Row): Bar => ({
  ago: Number(row['ago']),
  good: Number(row['stored']),
  bad: Number(row['unauthorized']) + Number(row['refused']),
  later: Number(row['unavailable']),
});

/** A duration as `headgate.traffic` gives it: an upper bound. */
export function boundText(ms: string | null): string {
  if (ms === null) return '–';
  return ms === 'Infinity' ? '> 10 s' : `≤ ${digitsText(ms)} ms`;
}

export function Chart({ of }: { readonly of: TableRef }): JSX.Element {
  const [hours, setHours] = useState<1 | 24>(1);
  const { minutes, label } = spans[hours];
  const sql = readTraffic(of, hours, minutes);
  const { value, failure } = useRows(sql, 15_000);
  const rows = value ?? [];
  const sum = (name: string): string =>
    digitsText(String(rows.reduce((all, row) => all + Number(row[name] ?? 0), 0)));
  const slowest =
    rows.map((row) => row['p99_ms'] ?? null).toSorted((a, b) => Number(b) - Number(a))[0] ?? null;
  return (
    <section class="chart">
      <div class="row-of">
        {([1, 24] as const).map((it) => (
          <button
            key={it}
            type="button"
            class="small quiet"
            aria-pressed={hours === it}
            onClick={() => setHours(it)}
          >
            {it === 1 ? '1 h' : '24 h'}
          </button>
        ))}
        <span class="faint">{label}</span>
      </div>
      {failure === null ? null : <Wrong failure={failure} />}
      <Bars
        bars={rows.map(barOf)}
        count={(hours * 60) / minutes}
        height={40}
        label={`Requests in ${label}: ${sum('stored')} stored, ${sum('unauthorized')} with 401`}
      />
      <dl class="figures">
        <Figure name="stored" value={sum('stored')} />
        <Figure name="401" value={sum('unauthorized')} />
        <Figure name="other refusals" value={sum('refused')} />
        <Figure name="try again 5xx" value={sum('unavailable')} />
        <Figure name="p99, slowest minute" value={boundText(slowest)} />
      </dl>
      <Sql text={sql} />
    </section>
  );
}
