/**
 * Counts observations for Prometheus. Takes every observation and a few numbers from other rooms, returns the text of
 * `/metrics`; refuses nothing, touches nothing. Label values are existing tables (`metricTablesMax` of them, the rest
 * together as `other`) and words from our own tables: no request can create a series.
 */
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import { limits } from '../config/limits.ts';
import { observers } from '../observe/context.ts';
import type { Readers } from '../observe/context.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import {
  registerGateway,
  registerAnswers,
  registerTableCounters,
  readCounter,
  readGauge,
  TableCounts,
  tableLabels,
} from './request-metrics.ts';
import { PlainHistogram } from './plain-histogram.ts';
import type { MetricFamily } from './merged-metrics.ts';
import { registerWatch } from './watch-metrics.ts';
import type { ListenerState } from './watch-metrics.ts';
import type { SpoolState } from '../spool/spool-state.ts';

interface MetricsOptions {
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

export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  const counts = new TableCounts(options.tablesMax ?? limits.metricTablesMax);
  collectDefaultMetrics({ register: registry });
  registerTableCounters(registry, counts);
  registerGauges(registry, counts, options);
  const { ready = () => true, listeners = null, spool = () => null } = options;
  return {
    observe: observers(
      registerGroups(registry),
      registerAnswers(registry, counts),
      registerEvents(registry),
      registerGateway(registry),
      ...registerWatch(registry, ready, listeners, spool),
    ),
    contentType: registry.contentType,
    text: () => registry.metrics(),
    families: () => registry.getMetricsAsJSON(),
  };
}

function registerGauges(registry: Registry, counts: TableCounts, { lanes, load }: MetricsOptions): void {
  readGauge(registry, 'headgate_lane_rows', 'Rows waiting to be committed, by table', tableLabels, (add) => {
    for (const { table, rows } of lanes()) add(counts.of(table).labels, rows);
  });
  readGauge(
    registry,
    'headgate_listener_connections',
    'Open connections of the webhook listener',
    [],
    (add) => add({}, load().connections),
  );
  readGauge(
    registry,
    'headgate_listener_bytes_in_flight',
    'Bytes held for requests that are being read, checked or committed',
    [],
    (add) => add({}, load().bytesInFlight),
  );
}

/** Failures, the SQL door's sessions, certificates, and authentications. Returns what counts them. */
function registerEvents(registry: Registry): Readers {
  const registers = [registry];
  const valuesNulled = new Counter({
    name: 'headgate_values_nulled_total',
    help: 'Values that did not fit their column and were stored as NULL (on_type_error)',
    registers,
  });
  const requestFailures = new Counter({
    name: 'headgate_request_failures_total',
    help: 'Requests that failed because of a bug in Headgate',
    registers,
  });
  const engineRestarts = new Counter({
    name: 'headgate_engine_restarts_total',
    help: 'Times the engine became ready again after the first time',
    // Every process sees the same engine.
    aggregator: 'first',
    registers,
  });
  const sqlFailures = new Counter({
    name: 'headgate_sql_failures_total',
    help: 'Statements that failed because of a bug in Headgate',
    registers,
  });
  const sqlSessions = new Gauge({
    name: 'headgate_sql_sessions',
    help: 'Open connections of the SQL door',
    registers,
  });
  const tlsExpires = new Gauge({
    name: 'headgate_tls_certificate_expires_seconds',
    help: 'Expiry of the certificate of a door, in seconds since 1970',
    labelNames: ['door'],
    aggregator: 'min',
    registers,
  });
  const tlsUnusable = new Counter({
    name: 'headgate_tls_unusable_total',
    help: 'Changed certificates that could not be loaded; the previous one stays in use',
    registers,
  });
  const loginFailures = new Counter({
    name: 'headgate_sql_login_failures_total',
    help: 'Failed logins at the SQL port',
    registers,
  });
  let seenReady = false;
  return {
    'values.nulled': ({ values }) => valuesNulled.inc(values),
    'request.failed': () => requestFailures.inc(),
    'engine.ready': () => {
      if (seenReady) engineRestarts.inc();
      seenReady = true;
    },
    'tls.loaded': ({ door, expiresAtMs }) => tlsExpires.set({ door }, expiresAtMs / 1_000),
    'tls.unusable': () => tlsUnusable.inc(),
    'sql.login_failed': () => loginFailures.inc(),
    'sql.failed': () => sqlFailures.inc(),
    'sql.connected': () => sqlSessions.inc(),
    'sql.closed': () => sqlSessions.dec(),
  };
}

/** Returns what counts a group. */
function registerGroups(registry: Registry): Readers {
  const registers = [registry];
  const groups = { committed: 0, aborted: 0, unknown: 0 };
  readCounter(registry, 'headgate_groups_total', 'Groups (transactions), by outcome', ['result'], (add) => {
    for (const [result, count] of Object.entries(groups)) add({ result }, count);
  });
  const groupRows = new PlainHistogram({
    name: 'headgate_group_rows',
    help: 'Rows in one committed group',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    registers,
  });
  const commitSeconds = new PlainHistogram({
    name: 'headgate_commit_seconds',
    help: 'Time to commit one group, in seconds',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
    registers,
  });
  return {
    'group.committed': ({ rows, seconds, elsewhere }) => {
      groups.committed += 1;
      groupRows.add(rows);
      if (elsewhere !== true) commitSeconds.add(seconds);
    },
    'group.aborted': () => void (groups.aborted += 1),
    'group.unknown': () => void (groups.unknown += 1),
  };
}

/** One line of the text of `/metrics`, which covers all processes. */
export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** Parses that text. */
export function samplesOf(text: string): Sample[] {
  return text.split('\n').flatMap(sampleOf);
}

function sampleOf(line: string): Sample[] {
  const read = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
  if (read === null) return [];
  const [, name = '', inside = '', value = ''] = read;
  const labels = [...inside.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)];
  return [
    {
      name,
      labels: new Map(labels.map(([, key = '', said = '']) => [key, plain(said)])),
      value: Number(value),
    },
  ];
}

function plain(said: string): string {
  return said.replaceAll(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
}
