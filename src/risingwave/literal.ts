/** A text as a literal of RisingWave, in which a backslash in '…' is always an ordinary character. Takes text, returns SQL. Pure. */
export function literal(text: string): string {
  return text.includes("'") ? `'${text.replaceAll("'", "''")}'` : `'${text}'`;
}
