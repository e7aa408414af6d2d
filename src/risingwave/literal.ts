/** A text as a literal of RisingWave, where a backslash in '…' is always a character. Takes text, gives SQL. Pure. */
export function literal(text: string): string {
  return text.includes("'") ? `'${text.replaceAll("'", "''")}'` : `'${text}'`;
}
