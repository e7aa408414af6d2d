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
  registerGroups,
  registerAnswers,
  registerTableCounters,
  readGauge,
} from './request-metrics.ts';
import { TableCounts, tableLabels } from './table-counts.ts';
import type { MetricFamily } from './merged-metrics.ts';
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
