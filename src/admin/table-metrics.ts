/**
 * Counts requests and batches by table. Takes their observations, fills a registry. Label values are existing tables (`metricTablesMax` of
 * them, the rest together as `other`) and words from our own tables: no request can create a series.
 */
import type { Registry } from 'prom-client';
import type { Readers } from '../observe/context.ts';
import type { TableName } from '../observe/observations.ts';
import { answerBuckets, PlainHistogram } from './plain-histogram.ts';
import { readCounter } from './read-metrics.ts';
import { rememberedOf } from '../kit/memoize.ts';

/** Codes of answers that are not refusals. */
const welcome: ReadonlySet<string> = new Set(['committed', 'handshake']);
export const tableLabels = ['database', 'schema', 'table'] as const;

interface TableSeries {
  readonly labels: TableName;
  rows: number;
  /** Documents with keys that were not stored. */
  ignored: number;
  readonly answers: Map<string, { readonly status: number; count: number }>;
  /** Batches of WebSockets, by code. */
  readonly batches: Map<string, number>;
}

/** Counts per table, kept as plain numbers: an answered request costs one lookup and two additions. */
export class TableCounts {
  readonly #tablesMax: number;
  readonly #byName = new Map<string, TableSeries>();
  /** Rooms pass the same object for the same table as long as the table does not change. */
  readonly #ofTable = rememberedOf((table: TableName) => this.#named(table));
  readonly #noTable = newSeries({ database: '', schema: '', table: '' });
  readonly #other = newSeries({ database: 'other', schema: 'other', table: 'other' });

  constructor(tablesMax: number) {
    this.#tablesMax = tablesMax;
  }

  of(table: TableName | null): TableSeries {
    return table === null ? this.#noTable : this.#ofTable(table);
  }

  #named({ database, schema, table }: TableName): TableSeries {
    const name = JSON.stringify([database, schema, table]);
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    if (this.#byName.size >= this.#tablesMax) return this.#other;
    const series = newSeries({ database, schema, table });
    this.#byName.set(name, series);
    return series;
  }

  *all(): Iterable<TableSeries> {
    yield this.#noTable;
    yield* this.#byName.values();
    yield this.#other;
  }
}

function newSeries(labels: TableName): TableSeries {
  return { labels, rows: 0, ignored: 0, answers: new Map(), batches: new Map() };
}

function countAnswer(series: TableSeries, status: number, code: string, rows: number): void {
  series.rows += rows;
  const answer = series.answers.get(code);
  if (answer === undefined) series.answers.set(code, { status, count: 1 });
  else answer.count += 1;
}

/** Returns what counts an answer. */
export function registerAnswers(registry: Registry, counts: TableCounts): Readers {
  const registers = [registry];
  const requestSeconds = new PlainHistogram({
    name: 'headgate_request_seconds',
    help: 'From the end of the headers to the answer, in seconds',
    buckets: answerBuckets,
    registers,
  });
  const batchSeconds = new PlainHistogram({
    name: 'headgate_batch_seconds',
    help: 'From the last byte of a batch of a WebSocket to its acknowledgement, in seconds',
    buckets: answerBuckets,
    registers,
  });
  return {
    'request.answered': ({ table, status, code, rows, seconds }) => {
      countAnswer(counts.of(table), status, code, rows);
      requestSeconds.add(seconds);
    },
    'batch.answered': ({ table, code, rows, seconds }) => {
      const series = counts.of(table);
      series.rows += rows;
      series.batches.set(code, (series.batches.get(code) ?? 0) + 1);
      batchSeconds.add(seconds);
    },
    'keys.ignored': ({ table, documents }) => void (counts.of(table).ignored += documents),
  };
}

export function registerTableCounters(registry: Registry, counts: TableCounts): void {
  readCounter(
    registry,
    'headgate_requests_total',
    'Answered webhook requests, by table, status and code; without a table if the path names none',
    [...tableLabels, 'status', 'code'],
    (add) => {
      for (const { labels, answers } of counts.all())
        for (const [code, { status, count }] of answers) add({ ...labels, status, code }, count);
    },
  );
  readCounter(
    registry,
    'headgate_ignored_keys_documents_total',
    'Documents stored without some members, because their keys are no columns (on_unknown), by table',
    tableLabels,
    (add) => {
      for (const { labels, ignored } of counts.all()) if (ignored > 0) add(labels, ignored);
    },
  );
  readCounter(
    registry,
    'headgate_batches_total',
    'Acknowledged and refused batches of WebSockets, by table and code',
    [...tableLabels, 'code'],
    (add) => {
      for (const { labels, batches } of counts.all())
        for (const [code, count] of batches) add({ ...labels, code }, count);
    },
  );
  readCounter(registry, 'headgate_rows_total', 'Rows committed, by table', tableLabels, (add) => {
    for (const { labels, rows } of counts.all()) if (rows > 0) add(labels, rows);
  });
  readCounter(
    registry,
    'headgate_refusals_total',
    'Requests and batches refused, by code',
    ['code'],
    (add) => {
      for (const { answers } of counts.all())
        for (const [code, { count }] of answers) if (!welcome.has(code)) add({ code }, count);
      for (const { batches } of counts.all())
        for (const [code, count] of batches) if (code !== 'committed') add({ code }, count);
    },
  );
}
