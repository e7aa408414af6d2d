/**
 * Metrics of requests kept on the disk while their database is unreachable. Takes observations and the present content
 * of the spool; fills a registry. Label values are tables that spool, at most `metricTablesMax`.
 */
import { Counter } from 'prom-client';
import type { Registry } from 'prom-client';
import { limits } from '../config/limits.ts';
import type { Readers } from '../observe/context.ts';
import { readGauge } from './request-metrics.ts';
import { tableLabels } from './table-counts.ts';
import type { SpoolState } from '../spool/spool-state.ts';

/** `state` returns null if nothing is kept here. Returns what counts them. */
export function registerSpool(registry: Registry, state: () => SpoolState | null): Readers {
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
