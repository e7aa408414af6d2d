/**
 * Metrics other than those of requests: WebSockets, the catalog, stored refused requests, the spool, readiness. Takes observations
 * and numbers from other rooms; fills a registry. Label values are words from our own tables, databases that are
 * served, at most `databasesMax`, and tables that spool, at most `metricTablesMax`.
 */
import { Counter, Gauge } from 'prom-client';
import type { Registry } from 'prom-client';
import { limits } from '../config/limits.ts';
import type { Readers } from '../observe/context.ts';
import type { TableName } from '../observe/observations.ts';
import { tableLabels, readGauge } from './request-metrics.ts';
import type { SpoolState } from '../spool/spool-state.ts';

/** One slot of a listener process, as seen from the main process. */
export interface ListenerState {
  readonly listener: number;
  readonly serving: boolean;
  readonly connections: number;
}

/**
 * Returns what counts them. `ready`: what `/readyz` answers; `listeners` null: this process itself listens; `spool`: what is kept on the disk.
 */
export function registerWatch(
  registry: Registry,
  ready: () => boolean,
  listeners: (() => readonly ListenerState[]) | null,
  spool: () => SpoolState | null,
): readonly Readers[] {
  registerReady(registry, ready);
  if (listeners !== null) registerListeners(registry, listeners);
  return [
    webSockets(registry),
    catalog(registry),
    rejected(registry),
    handshakes(registry),
    sentOn(registry),
    deliveries(registry),
    readings(registry),
    certificates(registry),
    restarts(registry),
    spans(registry),
    registerSpool(registry, spool),
  ];
}

function registerReady(registry: Registry, ready: () => boolean): void {
  registry.registerMetric(
    new Gauge({
      name: 'headgate_ready',
      help: '1 while requests can be served, 0 otherwise; /readyz says why',
      registers: [],
      aggregator: 'first',
      collect() {
        this.set(ready() ? 1 : 0);
      },
    }),
  );
}

function registerListeners(registry: Registry, listeners: () => readonly ListenerState[]): void {
  registry.registerMetric(
    new Gauge({
      name: 'headgate_listener_processes',
      help: 'Listener processes that serve, and that are being started',
      labelNames: ['state'],
      registers: [],
      collect() {
        const all = listeners();
        const serving = all.filter((it) => it.serving).length;
        this.set({ state: 'serving' }, serving);
        this.set({ state: 'starting' }, all.length - serving);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: 'headgate_listener_process_connections',
      help: 'Open connections, by listener process',
      labelNames: ['listener'],
      registers: [],
      collect() {
        for (const { listener, connections } of listeners()) this.set({ listener }, connections);
      },
    }),
  );
}

function restarts(registry: Registry): Readers {
  const lost = new Counter({
    name: 'headgate_listener_restarts_total',
    help: 'Unexpected ends of listener processes',
    registers: [registry],
  });
  return { 'listener.lost': () => lost.inc() };
}

function spans(registry: Registry): Readers {
  const registers = [registry];
  const sent = new Counter({
    name: 'headgate_spans_sent_total',
    help: 'Spans that the receiver of traces has accepted',
    registers,
  });
  const dropped = new Counter({
    name: 'headgate_spans_dropped_total',
    help: 'Spans that were dropped, by reason: queue (too many waited), refused (by the receiver, or for too long), stopped',
    labelNames: ['why'],
    registers,
  });
  return {
    'spans.sent': ({ spans: count }) => sent.inc(count),
    'spans.dropped': ({ why, spans: count }) => dropped.inc({ why }, count),
  };
}

function webSockets(registry: Registry): Readers {
  const registers = [registry];
  const open = new Gauge({
    name: 'headgate_websockets',
    help: 'Open WebSockets that were accepted',
    registers,
  });
  const closed = new Counter({
    name: 'headgate_websockets_closed_total',
    help: 'WebSockets closed, by reason; closed: by the client',
    labelNames: ['code'],
    registers,
  });
  return {
    'websocket.opened': () => open.inc(),
    'websocket.closed': ({ code, opened }) => {
      closed.inc({ code });
      // A WebSocket whose first message was refused was never counted.
      if (opened) open.dec();
    },
  };
}

function catalog(registry: Registry): Readers {
  const known = new Map<string, { readonly tables: number; readonly unusable: number }>();
  const gauge = (name: string, help: string, which: 'tables' | 'unusable') =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        labelNames: ['database'],
        registers: [],
        // Every process knows the same tables.
        aggregator: 'max',
        collect() {
          this.reset();
          for (const [database, counts] of known) this.set({ database }, counts[which]);
        },
      }),
    );
  gauge('headgate_tables', 'Webhook tables, by database', 'tables');
  gauge(
    'headgate_tables_unusable',
    'Webhook tables that answer 503 because a secret or column is not what it was',
    'unusable',
  );
  const unreadable = new Counter({
    name: 'headgate_catalog_failures_total',
    help: 'Times the catalog of a database could not be read',
    registers: [registry],
  });
  return {
    'catalog.unreadable': () => unreadable.inc(),
    'catalog.loaded': ({ database, tables, unusable }) => {
      known.delete(database);
      known.set(database, { tables, unusable });
      // Databases come and go; the one that was loaded longest ago is dropped first.
      for (const oldest of known.keys()) if (known.size > limits.databasesMax) known.delete(oldest);
    },
  };
}

function rejected(registry: Registry): Readers {
  const registers = [registry];
  const kept = new Counter({
    name: 'headgate_rejected_requests_total',
    help: 'Refused requests stored for their owners, and dropped ones by reason',
    labelNames: ['result'],
    registers,
  });
  for (const result of ['stored', 'rate', 'queue', 'engine']) kept.inc({ result }, 0);
  const retries = new Counter({
    name: 'headgate_retries_total',
    help: 'Retried requests, by outcome',
    labelNames: ['outcome'],
    registers,
  });
  for (const outcome of ['committed', 'refused', 'unknown']) retries.inc({ outcome }, 0);
  return {
    'rejected.stored': ({ rows }) => kept.inc({ result: 'stored' }, rows),
    'rejected.dropped': ({ why, rows }) => kept.inc({ result: why }, rows),
    'rejected.retried': ({ outcome }) =>
      retries.inc({ outcome: outcome === 'committed' || outcome === 'unknown' ? outcome : 'refused' }),
  };
}

function deliveries(registry: Registry): Readers {
  const repeated = new Counter({
    name: 'headgate_deliveries_repeated_total',
    help: 'Requests that were answered and not stored, because their delivery is stored already (dedupe)',
    registers: [registry],
  });
  const differing = new Counter({
    name: 'headgate_deliveries_differing_total',
    help: 'Requests that were not stored, because their delivery id came before with another body (dedupe)',
    labelNames: tableLabels,
    registers: [registry],
  });
  const stale = new Counter({
    name: 'headgate_rows_stale_total',
    help: 'Rows that changed nothing, because the stored rows are newer (version)',
    labelNames: tableLabels,
    registers: [registry],
  });
  const labelsOf = boundedLabels();
  return {
    'rows.stale': ({ table, rows }) => stale.inc(labelsOf(table), rows),
    'deliveries.repeated': ({ deliveries: count }) => repeated.inc(count),
    'deliveries.differ': ({ table, deliveries: count }) => differing.inc(labelsOf(table), count),
  };
}

/** Of tables with the option `reconcile`. */
function readings(registry: Registry): Readers {
  const registers = [registry];
  const labelNames = [...tableLabels, 'outcome'] as const;
  const help =
    "Times the log of a table's sender was read, or was not, by outcome: read, refused (reconcile)";
  const read = new Counter({ name: 'headgate_reconcile_readings_total', help, labelNames, registers });
  const labelsOf = boundedLabels();
  return {
    'reconcile.read': ({ table }) => read.inc({ ...labelsOf(table), outcome: 'read' }),
    'reconcile.refused': ({ table }) => read.inc({ ...labelsOf(table), outcome: 'refused' }),
  };
}

function certificates(registry: Registry): Readers {
  const attempts = new Counter({
    name: 'headgate_certificate_attempts_total',
    help: 'Requests for a certificate to an authority, by outcome',
    labelNames: ['outcome'],
    registers: [registry],
  });
  for (const outcome of ['made', 'failed']) attempts.inc({ outcome }, 0);
  return {
    'certificate.made': () => attempts.inc({ outcome: 'made' }),
    'certificate.failed': () => attempts.inc({ outcome: 'failed' }),
  };
}

function handshakes(registry: Registry): Readers {
  const registers = [registry];
  const asked = new Counter({
    name: 'headgate_handshakes_total',
    help: 'Handshakes of senders, by outcome',
    labelNames: [...tableLabels, 'outcome'],
    registers,
  });
  const dropped = new Counter({
    name: 'headgate_handshakes_dropped_total',
    help: 'Handshakes that were not written to headgate.handshakes, by reason',
    labelNames: ['why'],
    registers,
  });
  for (const why of ['rate', 'queue', 'engine']) dropped.inc({ why }, 0);
  const labelsOf = boundedLabels();
  return {
    'handshakes.dropped': ({ why, rows }) => dropped.inc({ why }, rows),
    'handshake.asked': ({ table, outcome }) => asked.inc({ ...labelsOf(table), outcome }),
  };
}

/** Of the tables that HEADGATE_DELIVER names. */
function sentOn(registry: Registry): Readers {
  const registers = [registry];
  const attempts = new Counter({
    name: 'headgate_deliver_attempts_total',
    help: 'Attempts to send a row on, by outcome',
    labelNames: [...tableLabels, 'outcome'],
    registers,
  });
  const gauge = (name: string, help: string) => new Gauge({ name, help, labelNames: tableLabels, registers });
  const open = gauge('headgate_deliver_open_rows', 'Rows that wait to be sent on');
  const dead = gauge('headgate_deliver_dead_rows', 'Rows that had all their attempts');
  const oldest = gauge('headgate_deliver_oldest_seconds', 'How long the oldest open row has been waiting');
  const working = gauge(
    'headgate_deliver_working',
    '0: the receiver does not accept rows, or wants no more, or the table does not give them',
  );
  const labelsOf = boundedLabels();
  const [away, unread] = [new Set<string>(), new Set<string>()];
  const say = (set: Set<string>, table: TableName, isSo: boolean): void => {
    const labels = labelsOf(table);
    const name = JSON.stringify(labels);
    if (isSo) set.add(name);
    else set.delete(name);
    working.set(labels, away.has(name) || unread.has(name) ? 0 : 1);
  };
  return {
    'delivery.attempted': ({ table, outcome }) => attempts.inc({ ...labelsOf(table), outcome }),
    'delivery.down': ({ table }) => say(away, table, true),
    'delivery.resumed': ({ table }) => say(away, table, false),
    'delivery.failed': ({ table }) => say(unread, table, true),
    'delivery.counted': ({ table, open: waiting, dead: over, oldestS }) => {
      say(unread, table, false);
      const labels = labelsOf(table);
      open.set(labels, waiting);
      dead.set(labels, over);
      oldest.set(labels, oldestS);
    },
  };
}

/** The labels of a table; of tables beyond `metricTablesMax`, `other`. */
function boundedLabels(): (table: TableName) => Readonly<Record<(typeof tableLabels)[number], string>> {
  const known = new Set<string>();
  return ({ database, schema, table }) => {
    const name = JSON.stringify([database, schema, table]);
    const counts = known.has(name) || known.size < limits.metricTablesMax;
    if (counts) known.add(name);
    return counts ? { database, schema, table } : { database: 'other', schema: 'other', table: 'other' };
  };
}

/** Metrics of requests kept on the disk while their database is unreachable. `state` returns null if nothing is kept here. Returns what counts them. */
function registerSpool(registry: Registry, state: () => SpoolState | null): Readers {
  const gauge = (name: string, help: string, value: (it: SpoolState) => number) =>
    readGauge(registry, name, help, [], (add) => {
      const it = state();
      add({}, it === null ? 0 : value(it));
    });
  gauge('headgate_spool_bytes', 'Bytes of the files of the spool', (it) => it.bytes);
  gauge('headgate_spool_limit_bytes', 'Bytes that the files of the spool may take', (it) => it.bytesMax);
  gauge(
    'headgate_spool_held',
    'Spools, by table, that belong to another database or whose master key is missing',
    (it) => it.held,
  );
  gauge(
    'headgate_spool_quarantined',
    'Parts of files of the spool that could not be read, and are kept aside',
    (it) => it.quarantined,
  );
  const tables = (name: string, help: string, value: (table: SpoolState['tables'][number]) => number) =>
    readGauge(registry, name, help, tableLabels, (add) => {
      for (const table of (state()?.tables ?? []).slice(0, limits.metricTablesMax)) {
        const { database, schema, table: named } = table.name;
        add({ database, schema, table: named }, value(table));
      }
    });
  tables('headgate_spool_requests', 'Requests in the files of the spool, by table', (it) => it.requests);
  tables('headgate_spool_oldest_seconds', 'How long a table has been spooling', (it) => it.seconds);
  const counter = (name: string, help: string) => new Counter({ name, help, registers: [registry] });
  const kept = counter('headgate_spool_appends_total', 'Requests that were put on the disk');
  const arrived = counter(
    'headgate_spool_drained_total',
    'Requests of the disk that have arrived in the database',
  );
  const refused = counter(
    'headgate_spool_refused_total',
    'Requests of the disk that the database has refused',
  );
  const damaged = counter('headgate_spool_damaged_total', 'Stretches of the disk that could not be read');
  const failed = counter('headgate_spool_failures_total', 'Failures of the disk');
  return {
    'spool.kept': () => kept.inc(),
    'spool.arrived': ({ requests }) => arrived.inc(requests),
    'spool.refused': () => refused.inc(),
    'spool.damaged': () => damaged.inc(),
    'spool.failed': () => failed.inc(),
  };
}
