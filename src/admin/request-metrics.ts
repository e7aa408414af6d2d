/**
 * What is counted of requests and batches by table, and of the answers of the events gateway: as plain numbers, which are formatted for
 * Prometheus when they are read, so that an answered request costs little and nothing is done between two scrapes. Takes observations, fills a
 * registry. Label values are existing tables (`metricTablesMax` of them, the rest together as `other`) and words from our own tables: no request can
 * create a series.
 */
import { Gauge, Counter } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Readers } from '../observe/context.ts';
import type { Observation, TableName } from '../observe/observations.ts';
import { PlainHistogram } from './plain-histogram.ts';
import { rememberedOf } from '../kit/memoize.ts';

/** Codes of answers that are not refusals. */
const welcome: ReadonlySet<string> = new Set(['committed', 'handshake']);

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

type GatewayAnswered = Extract<Observation, { kind: 'gateway.answered' }>;

interface Route {
  rows: number;
  /** By code, then by status: one of the engine's own errors may have several. */
  readonly answers: Map<string, Map<number, number>>;
}

/** Returns what counts answers and streams. */
export function registerGateway(registry: Registry): Readers {
  const routes = new Map<string, Route>();
  readCounter(
    registry,
    'headgate_gateway_requests_total',
    'Requests of the events gateway, by route, status and code',
    ['route', 'status', 'code'],
    (add) => {
      for (const [route, { answers }] of routes)
        for (const [code, counts] of answers)
          for (const [status, count] of counts) add({ route, status, code }, count);
    },
  );
  readCounter(
    registry,
    'headgate_gateway_rows_total',
    'Rows that the events gateway has committed (events), that statements have touched (sql), or that were sent (stream)',
    ['route'],
    (add) => {
      for (const [route, it] of routes) if (it.rows > 0) add({ route }, it.rows);
    },
  );
  const seconds = new PlainHistogram({
    name: 'headgate_gateway_request_seconds',
    help: 'From the end of the headers to the end of the answer of the events gateway, in seconds',
    labelNames: ['route'],
    buckets: answerBuckets,
    registers: [registry],
  });
  const streams = new Gauge({
    name: 'headgate_gateway_streams',
    help: 'Streams of rows that the events gateway has open',
    registers: [registry],
  });
  const count = (answered: GatewayAnswered): void => {
    const { route, status, code } = answered;
    if (route === 'stream' && code === 'ok') streams.dec();
    let of = routes.get(route);
    if (of === undefined) routes.set(route, (of = { rows: 0, answers: new Map() }));
    let counts = of.answers.get(code);
    if (counts === undefined) of.answers.set(code, (counts = new Map()));
    of.rows += answered.rows;
    counts.set(status, (counts.get(status) ?? 0) + 1);
    seconds.add(answered.seconds, route);
  };
  return { 'stream.opened': () => streams.inc(), 'gateway.answered': count };
}

/** Called with the labels and the value of each series there is. */
type Add<L extends string> = (labels: Readonly<Partial<Record<L, string | number>>>, value: number) => void;

const collects = <L extends string>(read: (add: Add<L>) => void) =>
  function (this: Counter<L> | Gauge<L>): void {
    this.reset();
    read((labels, value) => this.inc({ ...labels }, value));
  };

export function readCounter<L extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly L[],
  read: (add: Add<L>) => void,
): void {
  registry.registerMetric(new Counter<L>({ name, help, labelNames, registers: [], collect: collects(read) }));
}

export function readGauge<L extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly L[],
  read: (add: Add<L>) => void,
): void {
  registry.registerMetric(new Gauge<L>({ name, help, labelNames, registers: [], collect: collects(read) }));
}

/** Buckets for answers that senders wait for, in seconds. */
const answerBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30];

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

/**
 * What is counted of requests and batches by table, as plain numbers: an answered request costs one lookup and two additions. Takes tables, returns
 * their counts: those of `tablesMax` tables, and of the rest together as `other`.
 */
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
