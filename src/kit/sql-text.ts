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
 * to plan the statement (22P02). A schema has no lock and can be renamed at any moment, so that the name means another table, with triggers. PostgreSQL reads
 * the constant after it has opened what it writes into, and learns of no renaming between the two: both are the same.
 */
export function stillNames(relation: string, oid: number | string): string {
  // Parsed for each group: of the forms that fail in time this is the cheapest. PostgreSQL does not look behind an OR for which it knows the answer.
  const named = `${quoteLiteral(relation)}::pg_catalog.regclass`;
  return `(pg_catalog.oideq(${named}, '${oid}') or 'elsewhere'::pg_catalog.text::pg_catalog.bool)`;
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
