/**
 * An immutable picture of one database's webhook tables. Pure: rows of the catalog in, Targets out; compiling a
 * VALIDATE expression and opening what is sealed come in as functions. A table whose check cannot be made is in the
 * snapshot as unusable: its requests are answered 503, never accepted unchecked.
 */
import type { Check, Target } from '../flow.ts';

/** One row of the view headgate.catalog_rows. */
export interface CatalogRow {
  /** pg_class.oid */
  readonly relation: number;
  readonly schema_name: string;
  readonly table_name: string;
  readonly column_names: readonly string[];
  /** pg_type.oid of each. */
  readonly column_types: readonly number[];
  /** The name of the body's bytes in the expression. */
  readonly payload: string;
  readonly options: Readonly<Record<string, unknown>>;
  /** Masked where it holds a key; null: no VALIDATE. */
  readonly expression: string | null;
  /** The whole expression, when the masked one is not the whole. */
  readonly sealed_expression: string | null;
  readonly seal_id: string | null;
  readonly secrets: readonly SealedSecret[];
}

export interface SealedSecret {
  /** The secret's name inside the expression. */
  readonly alias: string;
  readonly name: string;
  readonly seal_id: string;
  readonly sealed: string;
}

export interface SnapshotRooms {
  /** Opens what `seal` sealed; throws. */
  open(sealed: string, identity: string): string;
  /** Compiles an expression; throws with the reason. */
  compile(expression: string, payload: string, secrets: ReadonlyMap<string, string>): Check;
}

export interface Snapshot {
  readonly version: number;
  readonly tables: ReadonlyMap<string, Target>;
  /** What each Target was made of, to keep those that did not change. */
  readonly sources: ReadonlyMap<string, string>;
  /** Tables that cannot be used, with the reason; never with a value of a secret. */
  readonly unusable: ReadonlyMap<string, string>;
}

export const emptySnapshot: Snapshot = {
  version: 0,
  tables: new Map(),
  sources: new Map(),
  unusable: new Map(),
};

export function tableKey(schema: string, table: string): string {
  // NUL cannot be in a name, so that no two pairs share a key.
  return `${schema}\0${table}`;
}

/** The identities that sealed texts are bound to. The DDL seals under the same. */
export const identities = {
  secret: (name: string, sealId: string) => `secret:${name}:${sealId}`,
  expression: (sealId: string) => `expression:${sealId}`,
};

/** The next picture. Targets of tables that did not change are the same objects as before. */
export function nextSnapshot(
  before: Snapshot,
  database: string,
  rows: readonly CatalogRow[],
  rooms: SnapshotRooms,
): Snapshot {
  const tables = new Map<string, Target>();
  const sources = new Map<string, string>();
  const unusable = new Map<string, string>();
  for (const row of rows) {
    const key = tableKey(row.schema_name, row.table_name);
    const source = JSON.stringify(row);
    const kept = before.sources.get(key) === source ? before.tables.get(key) : undefined;
    const reason = before.unusable.get(key);
    sources.set(key, source);
    if (kept !== undefined) {
      tables.set(key, kept);
      if (reason !== undefined) unusable.set(key, reason);
      continue;
    }
    const made = toTarget(database, row, rooms);
    tables.set(key, made.target);
    if (made.unusable !== null) unusable.set(key, made.unusable);
  }
  return { version: before.version + 1, tables, sources, unusable };
}

/** pg_type.oid of jsonb; fixed in every PostgreSQL. */
const jsonbOid = 3802;

/** null: the table has the one column that takes a body. */
export function shapeProblem(row: CatalogRow): string | null {
  const fits = row.column_names.length === 1 && row.column_types[0] === jsonbOid;
  return fits ? null : 'the table no longer has exactly one column of type jsonb';
}

function toTarget(
  database: string,
  row: CatalogRow,
  rooms: SnapshotRooms,
): { target: Target; unusable: string | null } {
  const [column = ''] = row.column_names;
  let check: Target['check'] = 'unusable';
  let unusable = shapeProblem(row);
  if (unusable === null) {
    try {
      check = makeCheck(row, rooms);
    } catch (error) {
      unusable = error instanceof Error ? error.message : String(error);
    }
  }
  const { schema_name: schema, table_name: table, relation: oid } = row;
  const waitsForDisk = row.options['webhook.wait_for_persistence'] !== false;
  return {
    target: {
      database,
      schema,
      table,
      oid,
      check,
      waitsForDisk,
      shape: {
        mark: '',
        way: 'copy',
        columns: [{ name: column, type: 'jsonb', baseType: jsonbOid, fallback: null }],
        key: [],
        misfits: 'reject',
      },
      intake: { format: 'json', batched: false, document: column, includes: [], hiddenHeaders: new Set() },
    },
    unusable,
  };
}

function makeCheck(row: CatalogRow, rooms: SnapshotRooms): Check | null {
  const source = openSource(row, rooms);
  return source === null ? null : rooms.compile(source.expression, source.payload, source.secrets);
}

/** What a check is made of, in clear: never kept, never logged. */
export interface CheckSource {
  readonly expression: string;
  readonly payload: string;
  readonly secrets: ReadonlyMap<string, string>;
}

/** null: the table has no VALIDATE. Throws, naming what does not open. */
export function openSource(row: CatalogRow, rooms: Pick<SnapshotRooms, 'open'>): CheckSource | null {
  if (row.expression === null) return null;
  const secrets = new Map<string, string>();
  for (const { alias, name, seal_id, sealed } of row.secrets) {
    try {
      secrets.set(alias, rooms.open(sealed, identities.secret(name, seal_id)));
    } catch (error) {
      throw new Error(`secret ${name}: ${(error as Error).message}`, { cause: error });
    }
  }
  let expression = row.expression;
  if (row.sealed_expression !== null) {
    try {
      expression = rooms.open(row.sealed_expression, identities.expression(row.seal_id ?? ''));
    } catch (error) {
      throw new Error(`VALIDATE expression: ${(error as Error).message}`, { cause: error });
    }
  }
  return { expression, payload: row.payload, secrets };
}
