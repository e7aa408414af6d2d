/** What is shown of all spools: by /readyz, by the metrics, and by SHOW SPOOL. Takes the spools, returns values; touches nothing. */
import type { Catalog } from '../catalog/catalog.ts';
import type { Settings } from '../config/settings.ts';
import type { TableName } from '../observe/observations.ts';
import type { DatabaseSpool } from './database-spool.ts';
import { madeAtMs } from './spool-folder.ts';
import { isSpooling } from './table-order.ts';
import type { Spools } from './spools.ts';

export interface SpoolDetail {
  /** Requests for tables that spool are accepted, whatever the database does. */
  readonly takes: boolean;
  readonly bytes: number;
  readonly tables: number;
  /** Spools, by table, whose requests do not arrive: another database's, or without their master key. */
  readonly held: number;
  /** Parts of files that could not be read, and are kept aside. */
  readonly damaged: number;
}

export interface SpoolState {
  /** Of all files, including those created ahead. */
  readonly bytes: number;
  /** The limit for `bytes`. */
  readonly bytesMax: number;
  /** Spools left as they are: another database's, or without their key. */
  readonly held: number;
  /** Parts of files that could not be read, and are kept aside until a person removes them. */
  readonly quarantined: number;
  /** Tables with requests kept, or that wait until everything has arrived. */
  readonly tables: readonly {
    readonly name: TableName;
    readonly requests: number;
    readonly seconds: number;
  }[];
}

/** The spools, null if another process keeps them, and what says of which tables they are. */
interface ShownSpools {
  readonly spool: Spools | null;
  readonly catalog: Catalog;
  readonly settings: Settings;
}

/** What is on the disk; null: nothing ever was. */
export function spoolState({ spool, catalog, settings }: ShownSpools): SpoolState | null {
  const all = spool?.all ?? null;
  if (all === null) return null;
  const tables = all.flatMap(({ kept }) =>
    viewsOf(kept).map(({ oid, requests, sinceMs }) => ({
      name: nameOf(kept, oid, catalog),
      requests,
      seconds: sinceMs === null ? 0 : (Date.now() - sinceMs) / 1_000,
    })),
  );
  return {
    bytes: all.reduce((sum, { kept }) => sum + kept.bytes, 0),
    bytesMax: settings.spoolBytesMax,
    held: all.reduce((sum, { drainer }) => sum + drainer.held.all.length, 0),
    quarantined: all.reduce((sum, { kept }) => sum + kept.health.quarantined.length, 0),
    tables,
  };
}

/** For /readyz; null: nothing was ever kept. `draining`: no new requests are accepted. */
export function spoolDetail(shown: ShownSpools, draining: boolean): SpoolDetail | null {
  const state = spoolState(shown);
  if (state === null) return null;
  const { bytes, held, tables, quarantined } = state;
  return { takes: !draining && takes(shown), bytes, tables: tables.length, held, damaged: quarantined };
}

/** Whether requests for some table would be accepted now if its database were unreachable. */
function takes({ spool, catalog, settings }: ShownSpools): boolean {
  return (spool?.all ?? []).some(({ kept }) => {
    const known = catalog.known(kept.database);
    if (!kept.usable || known === null || known.ageMs > settings.spoolTrustSeconds * 1_000) return false;
    return [...known.snapshot.tables.values()].some((target) => isSpooling(target, settings));
  });
}

/** For SHOW SPOOL: by the oid of a table, 0 for no table of this database, and a number. */
export function shownSpool(spool: Spools | null, database: string): Readonly<Record<string, object>> {
  const open = spool?.all?.find(({ kept }) => kept.database === database);
  if (open === undefined) return {};
  const { kept, drainer: it } = open;
  const rows = [
    ...viewsOf(kept),
    ...it.held.all.map(({ spool, oid, isForeign, reason }) => ({
      oid: isForeign ? 0 : oid,
      state: 'held',
      requests: spool.segments.reduce((sum, { counts }) => sum + (counts.get(oid)?.requests ?? 0), 0),
      sinceMs: madeAtMs(spool.id),
      reason: `${reason}: ${spool.id}`,
    })),
    ...kept.health.quarantined.map(({ path, oid, requests }) => ({
      oid: oid ?? 0,
      state: 'damaged',
      requests,
      sinceMs: null,
      reason: `it cannot be read: ${path}`,
    })),
  ];
  return Object.fromEntries(
    rows.map(({ oid, state, requests, sinceMs, reason }, i) => [
      `${oid}/${i}`,
      { state, requests, since: sinceMs === null ? null : sinceMs / 1_000, reason },
    ]),
  );
}

function nameOf({ database, told }: DatabaseSpool, oid: number, catalog: Catalog): TableName {
  const known = told.get(oid) ?? catalog.current(database, oid);
  return { database, schema: known?.schema ?? '', table: known?.table ?? String(oid) };
}

/** The state of a table and its spool, to be shown. */
interface GateView {
  readonly oid: number;
  readonly state: string;
  readonly requests: number;
  readonly sinceMs: number | null;
  readonly reason: string | null;
}

function viewsOf({ gates, shares: { counts } }: DatabaseSpool): readonly GateView[] {
  return [...gates].flatMap(({ oid, state, sinceMs, reason }) =>
    state === 'open' ? [] : [{ oid, state, requests: counts.get(oid)?.requests ?? 0, sinceMs, reason }],
  );
}
