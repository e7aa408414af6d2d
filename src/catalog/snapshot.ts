/**
 * An immutable picture of one database's webhook tables. Pure: takes rows of the catalog and a compiler, returns Targets (target.ts). Those of
 * tables that did not change are the same objects as before. Tables whose definition cannot be read are in it as unusable, each with the reason.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { TableName } from '../observe/observations.ts';
import type { Target } from '../types/target.ts';
import type { CatalogRow, UnreadRow } from './catalog-rows.ts';
import { toTarget, unusableTarget } from './target.ts';
import type { Compiles } from './table-compiler.ts';

const tooLarge =
  'its columns, VALIDATE, secrets, defaults, checks and other expressions, or those of all tables of its owner, take too much of the catalog';

const locked = 'somebody has locked it (ACCESS EXCLUSIVE), or waits to; it is read when it is free';

const unreadable = (why: string): string =>
  `the engine fails to read its definition: ${why}; it is tried again every minute`;

export interface Snapshot {
  readonly version: number;
  readonly tables: ReadonlyMap<string, Target>;
  /** What each Target was made from, to keep Targets that did not change. */
  readonly sources: ReadonlyMap<string, string>;
  /** Tables that cannot be used, with the reason; never with a value of a secret. */
  readonly unusable: ReadonlyMap<string, string>;
  /** Tables with an ANSWER that cannot be used, with the reason. */
  readonly unanswering: ReadonlyMap<string, string>;
}

export const emptySnapshot: Snapshot = {
  version: 0,
  tables: new Map(),
  sources: new Map(),
  unusable: new Map(),
  unanswering: new Map(),
};

export function tableKey(schema: string, table: string): string {
  // NUL cannot occur in a name, so no two pairs share a key.
  return `${schema}\0${table}`;
}

/** The key of a table in `tables`. Remembered per name object: the same objects are looked up again and again. */
export const keyOfName = rememberedOf(({ schema, table }: Pick<TableName, 'schema' | 'table'>) =>
  tableKey(schema, table),
);

/**
 * The next picture. Targets of tables that did not change are the same objects as before. `stays`: tables that are left
 * as they were and are not among the rows.
 */
export function nextSnapshot(
  before: Snapshot,
  database: string,
  { rows, unread }: { readonly rows: readonly CatalogRow[]; readonly unread: readonly UnreadRow[] },
  compiler: Compiles,
  stays: (target: Target) => boolean = () => false,
): Snapshot {
  const left = <V>(all: ReadonlyMap<string, V>): Map<string, V> =>
    new Map([...all].filter(([key]) => isLeft.has(key)));
  const isLeft = new Set([...before.tables].filter(([, target]) => stays(target)).map(([key]) => key));
  const tables = left(before.tables);
  const sources = left(before.sources);
  const unusable = left(before.unusable);
  const unanswering = left(before.unanswering);
  for (const row of rows) {
    const key = tableKey(row.schema_name, row.table_name);
    const source = JSON.stringify(row);
    // An unusable table is made again: its key may have come back.
    const doubtful = before.unusable.has(key) || before.unanswering.has(key);
    const same = before.sources.get(key) === source && !doubtful;
    const kept = same ? before.tables.get(key) : undefined;
    // The name may have been another table's.
    unusable.delete(key);
    unanswering.delete(key);
    sources.set(key, source);
    if (kept !== undefined) {
      tables.set(key, kept);
      continue;
    }
    const made = toTarget(database, row, compiler);
    tables.set(key, made.target);
    if (made.unusable !== null) unusable.set(key, made.unusable);
    if (made.unanswering !== null) unanswering.set(key, made.unanswering);
  }
  for (const { relation: oid, schema_name: schema, table_name: table, why } of unread) {
    const key = tableKey(schema, table);
    sources.delete(key);
    unanswering.delete(key);
    tables.set(key, unusableTarget({ database, schema, table, oid }));
    unusable.set(key, why === undefined ? tooLarge : why === 'locked' ? locked : unreadable(why));
  }
  return { version: before.version + 1, tables, sources, unusable, unanswering };
}
