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

/** A text as an SQL literal, whatever the value of standard_conforming_strings. */
export function quoteLiteral(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`;
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
}

/** Whether a text can be the name of a relation for to_regclass(), which takes a number for an oid in later versions. */
export function mayNameRelation(text: string): boolean {
  return !text.includes('\0') && !/^\s*[-+\d]/.test(text);
}
