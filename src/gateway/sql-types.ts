/**
 * The JSON form and the name of each PostgreSQL type. Takes type oids, returns names and functions from PostgreSQL's
 * text to JSON; refuses nothing: values of unknown types are JSON strings. Types that are not PostgreSQL's own are
 * looked up in the engine once (`typeQuery`) and cached by the caller. Pure.
 */
import { arrayTextToJson } from '../kit/array-text.ts';

export type Encode = (text: string) => string;

export interface SqlType {
  /** As printed by format_type(). */
  readonly name: string;
  readonly encode: Encode;
  /** For an array: the type of its elements. */
  readonly element: number | null;
}

/** oid, name, oid of its array. */
const builtins: readonly (readonly [number, string, number])[] = [
  [16, 'boolean', 1000],
  [17, 'bytea', 1001],
  [18, '"char"', 1002],
  [19, 'name', 1003],
  [20, 'bigint', 1016],
  [21, 'smallint', 1005],
  [23, 'integer', 1007],
  [25, 'text', 1009],
  [26, 'oid', 1028],
  [114, 'json', 199],
  [142, 'xml', 143],
  [650, 'cidr', 651],
  [700, 'real', 1021],
  [701, 'double precision', 1022],
  [829, 'macaddr', 1040],
  [869, 'inet', 1041],
  [1042, 'character', 1014],
  [1043, 'character varying', 1015],
  [1082, 'date', 1182],
  [1083, 'time without time zone', 1183],
  [1114, 'timestamp without time zone', 1115],
  [1184, 'timestamp with time zone', 1185],
  [1186, 'interval', 1187],
  [1266, 'time with time zone', 1270],
  [1700, 'numeric', 1231],
  [2205, 'regclass', 2210],
  [2249, 'record', 2287],
  [2278, 'void', 0],
  [2950, 'uuid', 2951],
  [3802, 'jsonb', 3807],
];

const jsonNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** NaN and Infinity, which JSON lacks, stay strings. */
const encodeNumber: Encode = (text) => (jsonNumber.test(text) ? text : JSON.stringify(text));
const encodeBool: Encode = (text) => (text === 't' || text === 'true' ? 'true' : 'false');
const encodeJson: Encode = (text) => text;
export const encodeText: Encode = (text) => JSON.stringify(text);

function encodeOf(baseOid: number): Encode {
  if ([20, 21, 23, 26, 700, 701, 1700].includes(baseOid)) return encodeNumber;
  if (baseOid === 16) return encodeBool;
  return isJson(baseOid) ? encodeJson : encodeText;
}

export const isJson = (oid: number): boolean => oid === 114 || oid === 3802;

function arrayOf(element: number, delimiter: string): Encode {
  const encode = encodeOf(element);
  return (text) => arrayTextToJson(text, delimiter, encode) ?? JSON.stringify(text);
}

export const builtinTypes: ReadonlyMap<number, SqlType> = new Map(
  builtins.flatMap(([oid, name, array]): [number, SqlType][] => {
    const scalar: [number, SqlType] = [oid, { name, encode: encodeOf(oid), element: null }];
    if (array === 0) return [scalar];
    return [scalar, [array, { name: `${name}[]`, encode: arrayOf(oid, ','), element: oid }]];
  }),
);

/** An integer type, and its array. */
export function integerTypes(
  oid: number,
  name: string,
  array: number,
): readonly (readonly [number, SqlType])[] {
  return [
    [oid, { name, encode: encodeNumber, element: null }],
    [array, { name: `${name}[]`, encode: arrayOf(20, ','), element: oid }],
  ];
}

/** For a type that no longer exists: it was created and dropped in the same request. */
export const goneType: SqlType = { name: 'unknown', encode: encodeText, element: null };

/** $1: type oids separated by commas. A domain is treated as its base type. */
export const typeQuery = `
  select t.oid::pg_catalog.text as oid, pg_catalog.format_type(t.oid, null) as name,
    coalesce(nullif(t.typbasetype, 0), t.oid)::pg_catalog.text as base,
    e.oid::pg_catalog.text as element, coalesce(nullif(e.typbasetype, 0), e.oid)::pg_catalog.text as element_base,
    e.typdelim as delimiter
  from pg_catalog.pg_type t
  left join pg_catalog.pg_type e on e.oid = t.typelem and t.typlen = -1 and t.typcategory = 'A'
  where t.oid = any (pg_catalog.string_to_array($1, ',')::pg_catalog.oid[])`;

export interface TypeRow {
  readonly oid: string;
  readonly name: string;
  readonly base: string;
  readonly element: string | null;
  readonly element_base: string | null;
  readonly delimiter: string | null;
}

export function typeOf(row: TypeRow): SqlType {
  if (row.element === null) return { name: row.name, encode: encodeOf(Number(row.base)), element: null };
  return {
    name: row.name,
    encode: arrayOf(Number(row.element_base ?? row.element), row.delimiter ?? ','),
    element: Number(row.element),
  };
}
