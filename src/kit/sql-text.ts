/** PostgreSQL's bound on a name (NAMEDATALEN, without the zero at its end), in bytes: it cuts longer ones off. */

export const nameBytesMax = 63;

/** A name as an SQL identifier that means exactly this name. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A relation's name with its schema. */
export function relationName({ schema, table }: { readonly schema: string; readonly table: string }): string {
  return `${quoteIdentifier(schema)}.${quoteIdentifier(table)}`;
}

/**
 * A condition for a statement that writes into the relation of this name and oid, in the part that is parsed after the relation: true, or PostgreSQL refuses
 * to parse the statement (22P02), before anything of the relation runs (relations/identifier-check.ts). `schema`: where the domain is.
 */
export function namesAsParsed(schema: string, relation: string, oid: number | string): string {
  const element = `${oid} ${relation}`.replaceAll(/["\\]/g, '\\$&');
  return `${quoteLiteral(`{"${element}"}`)}::${schema}.named_relation[] is not null`;
}

/**
 * A condition that is true, or PostgreSQL refuses to plan the statement (22P02): for a SELECT, as a function in its FROM behind the relation (stillNamed), or
 * where there is no such domain. The defaults of another table that an INSERT leads to are evaluated before.
 */
export function stillNames(relation: string, oid: number | string): string {
  // Of the forms that fail in time this is the cheapest. PostgreSQL does not look behind an OR for which it knows the answer.
  const named = `${quoteLiteral(relation)}::pg_catalog.regclass`;
  return `(pg_catalog.oideq(${named}, '${oid}') or 'elsewhere'::pg_catalog.text::pg_catalog.bool)`;
}

/**
 * The same for the end of FROM, behind a comma. PostgreSQL evaluates the functions of FROM before those of a view that the name may mean, which come before
 * WHERE, and it leaves out a relation that is one constant.
 */
export function stillNamed(relation: string, oid: number | string): string {
  return `pg_catalog.booleq(${stillNames(relation, oid)}, 'true') AS still (named)`;
}

/** A text as an SQL literal, whatever the value of standard_conforming_strings. */
export function quoteLiteral(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`;
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
}

/** Whether a text can be the name of a relation for to_regclass(), which takes a number for an oid in later versions. */
export function mayNameRelation(text: string): boolean {
  return !text.includes('\0') && !/^\s*[-+\d]/.test(text);
}

/**
 * An expression for the text of a `timestamptz`, with all its digits and the offset as a number, whatever the values of DateStyle and TimeZone.
 * `::text` may name a zone by an abbreviation (before PostgreSQL 18, unless DateStyle is ISO), which is read again as that of another zone:
 * IST is Israel's, not India's.
 */
export function timeText(expression: string): string {
  return `(pg_catalog.to_json(${expression}) operator(pg_catalog.#>>) '{}')`;
}

/** Words that PostgreSQL does not accept as a column name without quotes. */
const reserved = new Set(
  `all analyse analyze and any array as asc asymmetric authorization between binary bigint bit boolean both case cast char
  character check coalesce collate collation column concurrently constraint create cross current_catalog current_date
  current_role current_schema current_time current_timestamp current_user dec decimal default deferrable desc distinct do
  else end except exists extract false fetch float for foreign freeze from full grant greatest group grouping having ilike
  in initially inner inout int integer intersect interval into is isnull join json json_array json_arrayagg json_exists
  json_object json_objectagg json_query json_scalar json_serialize json_table json_value lateral leading least left like
  limit localtime localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric offset
  on only or order out outer overlaps overlay placing position precision primary real references returning right row
  select session_user setof similar smallint some substring symmetric system_user table tablesample then time timestamp to
  trailing treat trim true union unique user using values varchar variadic verbose when where window with xmlattributes
  xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable`.split(
    /\s+/,
  ),
);

/** A name as it appears in an expression: with quotes only where PostgreSQL needs them. */
export function bareIdentifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) && !reserved.has(name) ? name : quoteIdentifier(name);
}
