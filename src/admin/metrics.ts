/**
 * Counts observations for Prometheus. Takes every observation and a few numbers from other rooms, returns the text of
 * `/metrics`; refuses nothing, touches nothing. Label values are existing tables (`metricTablesMax` of them, the rest
 * together as `other`) and words from our own tables: no request can create a series.
 */
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import { limits } from '../config/limits.ts';
import type { Observation, Observe, TableName } from '../observe/observations.ts';
import { registerGateway } from './gateway-metrics.ts';
import type { MetricFamily } from './merged-metrics.ts';
import { answerBuckets, PlainHistogram } from './plain-histogram.ts';
import { registerWatch } from './watch-metrics.ts';
import type { ListenerState } from './watch-metrics.ts';
import type { SpoolState } from '../spool/spool-state.ts';

export interface MetricsOptions {
  readonly tablesMax?: number;
  /** The number of rows waiting in each open lane. */
  readonly lanes: () => Iterable<{ readonly table: TableName; readonly rows: number }>;
  /** What the listener holds at this moment. */
  readonly load: () => { readonly connections: number; readonly bytesInFlight: number };
  /** What `/readyz` answers. */
  readonly ready?: () => boolean;
  /** The listener processes, if there are any besides the main one. */
  readonly listeners?: () => readonly ListenerState[];
  readonly spool?: () => SpoolState | null;
}

export interface Metrics {
  readonly observe: Observe;
  readonly contentType: string;
  readonly text: () => Promise<string>;
  /** The same as plain values, for merging with those of other processes. */
  readonly families: () => Promise<MetricFamily[]>;
}

/** Codes of answers that are not refusals. */
const welcome: ReadonlySet<string> = new Set(['committed', 'handshake']);
const tableLabels = ['database', 'schema', 'table'] as const;

interface Series {
  readonly labels: TableName;
  rows: number;
  /** Documents with keys that were not stored. */
  ignored: number;
  readonly answers: Map<string, { readonly status: number; count: number }>;
  /** Batches of WebSockets, by code. */
  readonly batches: Map<string, number>;
}

/** Counts per table, kept as plain numbers: an answered request costs one lookup and two additions. */
class TableCounts {
  readonly #tablesMax: number;
  readonly #byName = new Map<string, Series>();
  /** Rooms pass the same object for the same table as long as the table does not change. */
  readonly #byIdentity = new WeakMap<TableName, Series>();
  readonly #noTable = newSeries({ database: '', schema: '', table: '' });
  readonly #other = newSeries({ database: 'other', schema: 'other', table: 'other' });

  constructor(tablesMax: number) {
    this.#tablesMax = tablesMax;
  }

  of(table: TableName | null): Series {
    if (table === null) return this.#noTable;
    const known = this.#byIdentity.get(table);
    if (known !== undefined) return known;
    const name = JSON.stringify([table.database, table.schema, table.table]);
    let series = this.#byName.get(name);
    if (series === undefined) {
      if (this.#byName.size < this.#tablesMax) {
        series = newSeries({ database: table.database, schema: table.schema, table: table.table });
        this.#byName.set(name, series);
      } else series = this.#other;
    }
    this.#byIdentity.set(table, series);
    return series;
  }

  *all(): Iterable<Series> {
    yield this.#noTable;
    yield* this.#byName.values();
    yield this.#other;
  }
}

function newSeries(labels: TableName): Series {
  return { labels, rows: 0, ignored: 0, answers: new Map(), batches: new Map() };
}

function countAnswer(series: Series, status: number, code: string, rows: number): void {
  series.rows += rows;
  const answer = series.answers.get(code);
  if (answer === undefined) series.answers.set(code, { status, count: 1 });
  else answer.count += 1;
}

export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  const counts = new TableCounts(options.tablesMax ?? limits.metricTablesMax);
  collectDefaultMetrics({ register: registry });
  registerTableCounters(registry, counts);
  registerGauges(registry, counts, options);
  const events = registerEvents(registry);
  const { ready = () => true, listeners = null, spool = () => null } = options;
  const watch = registerWatch(registry, ready, listeners, spool);
  return {
    observe: (observation) => {
      if (observation.kind === 'request.answered') {
        countAnswer(counts.of(observation.table), observation.status, observation.code, observation.rows);
        events.requestSeconds.add(observation.seconds);
      } else if (observation.kind === 'batch.answered') {
        const series = counts.of(observation.table);
        series.rows += observation.rows;
        series.batches.set(observation.code, (series.batches.get(observation.code) ?? 0) + 1);
        events.batchSeconds.add(observation.seconds);
      } else if (observation.kind === 'keys.ignored') {
        counts.of(observation.table).ignored += observation.documents;
      } else {
        count(events, observation);
        watch(observation);
      }
    },
    contentType: registry.contentType,
    text: () => registry.metrics(),
    families: () => registry.getMetricsAsJSON(),
  };
}

/** Counters are filled when they are read: between two scrapes only plain numbers are touched. */
function registerTableCounters(registry: Registry, counts: TableCounts): void {
  registry.registerMetric(
    new Counter({
      name: 'headgate_requests_total',
      help: 'Answered webhook requests, by table, status and code; without a table if the path names none',
      labelNames: [...tableLabels, 'status', 'code'],
      registers: [],
      collect() {
        this.reset();
        for (const { labels, answers } of counts.all()) {
          for (const [code, { status, count }] of answers) this.inc({ ...labels, status, code }, count);
        }
      },
    }),
  );
  registry.registerMetric(
    new Counter({
      name: 'headgate_ignored_keys_documents_total',
      help: 'Documents stored without some members, because their keys are no columns (on_unknown), by table',
      labelNames: [...tableLabels],
      registers: [],
      collect() {
        this.reset();
        for (const { labels, ignored } of counts.all()) if (ignored > 0) this.inc({ ...labels }, ignored);
      },
    }),
  );
  registry.registerMetric(
    new Counter({
      name: 'headgate_batches_total',
      help: 'Acknowledged and refused batches of WebSockets, by table and code',
      labelNames: [...tableLabels, 'code'],
      registers: [],
      collect() {
        this.reset();
        for (const { labels, batches } of counts.all())
          for (const [code, count] of batches) this.inc({ ...labels, code }, count);
      },
    }),
  );
  registry.registerMetric(
    new Counter({
      name: 'headgate_rows_total',
      help: 'Rows committed, by table',
      labelNames: tableLabels,
      registers: [],
      collect() {
        this.reset();
        for (const { labels, rows } of counts.all()) if (rows > 0) this.inc({ ...labels }, rows);
      },
    }),
  );
  registry.registerMetric(
    new Counter({
      name: 'headgate_refusals_total',
      help: 'Requests and batches refused, by code',
      labelNames: ['code'],
      registers: [],
      collect() {
        this.reset();
        for (const { answers } of counts.all()) {
          for (const [code, { count }] of answers) if (!welcome.has(code)) this.inc({ code }, count);
        }
        for (const { batches } of counts.all()) {
          for (const [code, count] of batches) if (code !== 'committed') this.inc({ code }, count);
        }
      },
    }),
  );
}

function registerGauges(registry: Registry, counts: TableCounts, options: MetricsOptions): void {
  registry.registerMetric(
    new Gauge({
      name: 'headgate_lane_rows',
      help: 'Rows waiting to be committed, by table',
      labelNames: tableLabels,
      registers: [],
      collect() {
        this.reset();
        for (const { table, rows } of options.lanes()) this.inc({ ...counts.of(table).labels }, rows);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: 'headgate_listener_connections',
      help: 'Open connections of the webhook listener',
      registers: [],
      collect() {
        this.set(options.load().connections);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: 'headgate_listener_bytes_in_flight',
      help: 'Bytes held for requests that are being read, checked or committed',
      registers: [],
      collect() {
        this.set(options.load().bytesInFlight);
      },
    }),
  );
}

/** The SQL door's sessions, certificates, and authentications. */
function registerDoorEvents(registers: Registry[]) {
  return {
    sqlSessions: new Gauge({
      name: 'headgate_sql_sessions',
      help: 'Open connections of the SQL door',
      registers,
    }),
    tlsExpires: new Gauge({
      name: 'headgate_tls_certificate_expires_seconds',
      help: 'Expiry of the certificate of a door, in seconds since 1970',
      labelNames: ['door'],
      aggregator: 'min',
      registers,
    }),
    tlsUnusable: new Counter({
      name: 'headgate_tls_unusable_total',
      help: 'Changed certificates that could not be loaded; the previous one stays in use',
      registers,
    }),
    loginFailures: new Counter({
      name: 'headgate_sql_login_failures_total',
      help: 'Failed logins at the SQL port',
      registers,
    }),
  };
}

function registerEvents(registry: Registry) {
  const registers = [registry];
  const groups = { committed: 0, aborted: 0, unknown: 0 };
  registry.registerMetric(
    new Counter({
      name: 'headgate_groups_total',
      help: 'Groups (transactions), by outcome',
      labelNames: ['result'],
      registers: [],
      collect() {
        this.reset();
        for (const [result, count] of Object.entries(groups)) this.inc({ result }, count);
      },
    }),
  );
  return {
    groups,
    engineReady: { seen: false },
    requestSeconds: new PlainHistogram({
      name: 'headgate_request_seconds',
      help: 'From the end of the headers to the answer, in seconds',
      buckets: answerBuckets,
      registers,
    }),
    batchSeconds: new PlainHistogram({
      name: 'headgate_batch_seconds',
      help: 'From the last byte of a batch of a WebSocket to its acknowledgement, in seconds',
      buckets: answerBuckets,
      registers,
    }),
    groupRows: new PlainHistogram({
      name: 'headgate_group_rows',
      help: 'Rows in one committed group',
      buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
      registers,
    }),
    commitSeconds: new PlainHistogram({
      name: 'headgate_commit_seconds',
      help: 'Time to commit one group, in seconds',
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
      registers,
    }),
    valuesNulled: new Counter({
      name: 'headgate_values_nulled_total',
      help: 'Values that did not fit their column and were stored as NULL (on_type_error)',
      registers,
    }),
    requestFailures: new Counter({
      name: 'headgate_request_failures_total',
      help: 'Requests that failed because of a bug in Headgate',
      registers,
    }),
    engineRestarts: new Counter({
      name: 'headgate_engine_restarts_total',
      help: 'Times the engine became ready again after the first time',
      // Every process sees the same engine.
      aggregator: 'first',
      registers,
    }),
    sqlFailures: new Counter({
      name: 'headgate_sql_failures_total',
      help: 'Statements that failed because of a bug in Headgate',
      registers,
    }),
    ...registerDoorEvents(registers),
    gateway: registerGateway(registry),
  };
}

function count(events: ReturnType<typeof registerEvents>, observation: Observation): void {
  switch (observation.kind) {
    case 'group.committed':
      events.groups.committed += 1;
      events.groupRows.add(observation.rows);
      if (observation.elsewhere !== true) events.commitSeconds.add(observation.seconds);
      break;
    case 'group.aborted':
      events.groups.aborted += 1;
      break;
    case 'group.unknown':
      events.groups.unknown += 1;
      break;
    case 'values.nulled':
      events.valuesNulled.inc(observation.values);
      break;
    case 'gateway.answered':
      events.gateway(observation);
      break;
    case 'request.failed':
      events.requestFailures.inc();
      break;
    case 'engine.ready':
      if (events.engineReady.seen) events.engineRestarts.inc();
      events.engineReady.seen = true;
      break;
    case 'tls.loaded':
      events.tlsExpires.set({ door: observation.door }, observation.expiresAtMs / 1_000);
      break;
    case 'tls.unusable':
      events.tlsUnusable.inc();
      break;
    case 'sql.login_failed':
      events.loginFailures.inc();
      break;
    case 'sql.failed':
      events.sqlFailures.inc();
      break;
    case 'sql.connected':
      events.sqlSessions.inc();
      break;
    case 'sql.closed':
      events.sqlSessions.dec();
      break;
    default:
      break;
  }
}
