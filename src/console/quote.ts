/** SQL and shell texts from arbitrary values: the page shows every statement that it runs. Pure. */

export function identifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) && !reserved.has(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** Assumes standard_conforming_strings, PostgreSQL's default: a backslash is literal. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A time in ms since 1970. */
export const time = (ms: number): string => `timestamptz '${new Date(ms).toISOString()}'`;

/** A value as the engine writes it; not as a cast does, which the owner of its type may have defined. */
export const textOf = (value: string): string =>
  `CASE WHEN ${value} IS DISTINCT FROM NULL THEN pg_catalog.concat(${value}) END`;

export function qualified(schema: string, name: string): string {
  return `${identifier(schema)}.${identifier(name)}`;
}

/** Characters that a terminal acts on are written as escapes of bash, zsh and ksh: pasted, they would end the command. */
export function shellWord(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  const escaped = text.replaceAll(/[^\P{Cc}\n\t]|[\p{Cf}\p{Zl}\p{Zp}]/gu, bytesOf);
  if (escaped === text) return `'${text.replaceAll("'", String.raw`'\''`)}'`;
  return `$'${text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}'\\]/gu, bytesOf)}'`;
}

function bytesOf(char: string): string {
  const bytes = [...new TextEncoder().encode(char)];
  return bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
}

/** Words that PostgreSQL does not accept as the name of a table or column. */
const reserved = new Set(
  (
    'all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast char ' +
    'character check coalesce collate collation column concurrently constraint create cross current_catalog current_date ' +
    'current_role current_schema current_time current_timestamp current_user dec decimal default deferrable desc distinct do ' +
    'else end except exists extract false fetch float for foreign freeze from full grant greatest group grouping having ilike in ' +
    'initially inner inout int integer intersect interval into is isnull join json lateral leading least left like limit ' +
    'localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric offset on only or order out ' +
    'outer overlaps overlay placing position precision primary real references returning right row select session_user setof ' +
    'similar smallint some substring symmetric system_user table tablesample then time timestamp to trailing treat trim true ' +
    'union unique user using values varchar variadic verbose when where window with xmlattributes'
  ).split(' '),
);
