/**
 * Counts by bars of time, as a chart shows them (`readTraffic`): all of them when it opens, then only the last two bars again, since earlier ones do not
 * change. A process that could not write for a while adds to earlier bars: all are read again every quarter of an hour.
 */
import { useRef } from 'preact/hooks';
import { readTraffic } from '../endpoint-list.ts';
import type { Span } from '../endpoint-list.ts';
import type { TableRef } from '../statements.ts';
import { rowsOf, useLoaded } from './load.ts';
import type { Loaded, ResultRow } from './load.ts';
import { look } from './server.ts';

const wholeMs = 15 * 60_000;

interface Known {
  readonly sql: string;
  readonly rows: readonly ResultRow[];
  /** When all of them were read. */
  readonly wholeAtMs: number;
}

const atOf = (row: ResultRow): number => Number(row['at'] ?? 0);

/** Of one table, or of all; in bars of `barS` seconds. `span` null: asks nothing for now. */
export function useBars(of: TableRef | null, span: Span | null, barS: number): Loaded<readonly ResultRow[]> {
  const sql = span === null ? '' : readTraffic(of, span, barS);
  const known = useRef<Known | null>(null);
  // A long bar changes slowly.
  return useLoaded(
    sql,
    async (options) => {
      if (span === null) return [];
      const nowMs = Date.now();
      const before = known.current;
      const last = before?.rows.at(-1);
      const isKnown = last !== undefined && before?.sql === sql && nowMs - before.wholeAtMs < wholeMs;
      if (!isKnown) {
        const rows = rowsOf((await look(sql, options)).tables.at(-1));
        known.current = { sql, rows, wholeAtMs: nowMs };
        return rows;
      }
      const fromS = atOf(last) - barS;
      const fromMs = Math.max(fromS * 1_000, span.fromMs ?? 0);
      const newest = readTraffic(of, { ...span, fromMs }, barS);
      const read = rowsOf((await look(newest, options)).tables.at(-1));
      const firstS = span.fromMs === null ? nowMs / 1_000 - span.hours * 3_600 - barS : 0;
      const kept = before.rows.filter((row) => atOf(row) < fromS && atOf(row) > firstS);
      known.current = { ...before, rows: [...kept, ...read] };
      return known.current.rows;
    },
    span === null ? 0 : Math.max(15_000, (barS * 1_000) / 15),
  );
}
