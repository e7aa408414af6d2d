/**
 * What the option `version` means for a table as it is now. Pure: takes the option and the table's columns; returns what commit needs, or in
 * one line why it cannot be applied. Only types of PostgreSQL's own are compared, so that no code of an owner decides which row is newer.
 */
import { printPlace } from '../types/table-options.ts';
import type { NewestOption, NewestPlace, NewestType } from '../types/table-options.ts';
import type { Newest, NewestPart, Shape } from '../types/shape.ts';
import type { RelationRow } from './relations-sql.ts';

/** pg_type.oid */
const oids = {
  bool: 16,
  int8: 20,
  int2: 21,
  int4: 23,
  text: 25,
  bpchar: 1042,
  varchar: 1043,
  date: 1082,
  timestamp: 1114,
  timestamptz: 1184,
  numeric: 1700,
  uuid: 2950,
  pg_lsn: 3220,
  jsonb: 3802,
} as const;

const { bpchar, bool, pg_lsn, jsonb, ...both } = oids;
const compared: ReadonlySet<number> = new Set([...Object.values(both), pg_lsn]);
/** The key of a deleted row is remembered as a digest of its text. */
const keys: ReadonlySet<number> = new Set([...Object.values(both), bpchar, bool]);
const typeOf: Readonly<Record<NewestType, number>> = {
  numeric: oids.numeric,
  timestamptz: oids.timestamptz,
  text: oids.text,
  pg_lsn,
};

export interface NewestTable {
  readonly row: Pick<RelationRow, 'columns' | 'key' | 'distributed'>;
  readonly shape: Shape;
  /** The column that takes the whole document; null: keys fill the columns. */
  readonly document: string | null;
  /** The column that INCLUDE fills from a header, in lower case. */
  readonly headerColumn: (header: string) => string | undefined;
}

export function toNewest(option: NewestOption, table: NewestTable): Newest | string {
  const { row, shape } = table;
  if (row.distributed) return 'its option version does not work where Citus distributes the table';
  if (shape.writeMode !== 'upsert' || shape.key.length === 0)
    return 'its option version needs a primary key that a request fills';
  const keyTypes: number[] = [];
  for (const { name } of shape.key) {
    const base = row.columns.find((it) => it.name === name)?.base ?? 0;
    if (!keys.has(base))
      return `its option version does not work with the type of the key's column "${name}"`;
    keyTypes.push(base);
  }
  const parts: NewestPart[] = [];
  for (const place of option.places) {
    const part = partOf(place, table);
    if (typeof part === 'string') return part;
    parts.push(part);
  }
  return { parts, replacesEqual: option.replacesEqual, keyTypes };
}

function partOf(place: NewestPlace, { shape, document, headerColumn }: NewestTable): NewestPart | string {
  const shown = printPlace(place);
  const written = (name: string | undefined) => shape.columns.find((it) => it.name === name);
  if ('path' in place) {
    const [first, ...rest] = place.path.map(String);
    const [name, path] = document === null ? [first, rest] : [document, place.path.map(String)];
    const column = written(name);
    if (column?.baseType !== jsonb || path.length === 0)
      return `its version ${shown} is no place in a JSONB column`;
    return { column: column.name, type: typeOf[place.type], path };
  }
  const column = written('header' in place ? headerColumn(place.header) : place.column);
  if (column === undefined)
    return 'header' in place
      ? `its version ${shown} is a header that no column is filled from`
      : `its version ${shown} is no column that a request fills`;
  if (shape.key.some(({ name }) => name === column.name))
    return `its version ${shown} is part of the primary key`;
  if (!compared.has(column.baseType)) return `its version ${shown} is of type ${column.type}`;
  return { column: column.name, type: column.baseType, path: null };
}
