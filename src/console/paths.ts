/**
 * Paths in a JSON document, found in its tokens without parsing numbers, and the column that a path can become. Takes a
 * text, returns paths and SQL; names and keys of strangers are quoted in it. Pure.
 */
import { prettyJson } from './pretty.ts';
import { identifier, literal, qualified } from './quote.ts';
import type { TableRef } from './statements.ts';

export interface Path {
  readonly keys: readonly string[];
  readonly kind: 'string' | 'number' | 'boolean' | 'other';
  /** The beginning of the value. */
  readonly sample: string;
}

const pathsMax = 500;
/** Longer texts are not searched, which would block the tab. */
const charsMax = 256 * 1024;
const sampleChars = 60;

/** Paths to values in objects, not in lists; in their order, at most 500. */
export function pathsOf(text: string): readonly Path[] {
  const paths: Path[] = [];
  const open: { readonly list: boolean; key: string }[] = [];
  let lists = 0;
  const tokens = text.length > charsMax ? null : prettyJson(text);
  for (const token of tokens ?? []) {
    const inside = open.at(-1);
    if (token.kind === 'space') continue;
    if (token.kind === 'key') {
      if (inside !== undefined) inside.key = JSON.parse(token.text) as string;
    } else if (token.text === '{' || token.text === '[') {
      open.push({ list: token.text === '[', key: '' });
      if (token.text === '[') lists += 1;
    } else if (token.text === '}' || token.text === ']') {
      if (open.pop()?.list === true) lists -= 1;
    } else if (token.kind !== 'mark' && lists === 0 && open.length > 0 && paths.length < pathsMax)
      paths.push({
        keys: open.map(({ key }) => key),
        kind: kindOf(token.kind, token.text),
        sample: token.text.slice(0, sampleChars),
      });
  }
  return paths;
}

function kindOf(kind: string, text: string): Path['kind'] {
  if (kind === 'string' || kind === 'number') return kind;
  return text === 'null' ? 'other' : 'boolean';
}

/** A column name made from the last keys. */
export function nameOf(keys: readonly string[]): string {
  const words = keys
    .slice(-2)
    .join('_')
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
    .slice(0, 50);
  return /^[a-z]/.test(words) ? words : `column_${words}`.replace(/_+$/, '');
}

export interface NewColumn {
  /** Must be of type jsonb: with json, documents that jsonb cannot represent would be refused. */
  readonly from: string;
  readonly keys: readonly string[];
  readonly kind: Path['kind'];
  readonly name: string;
}

/**
 * A generated column: NULL for a document in which the value is of another kind, so that no document is refused because of
 * it.
 */
export function makeColumn({ schema, table }: TableRef, { from, keys, kind, name }: NewColumn): string {
  const path = `ARRAY[${keys.map(literal).join(', ')}]`;
  const column = identifier(from);
  const typed = kind === 'boolean' ? 'boolean' : kind === 'number' ? 'numeric' : 'text';
  const value = `${column} #>> ${path}`;
  const kept =
    typed === 'text'
      ? value
      : `CASE WHEN jsonb_typeof(${column} #> ${path}) = ${literal(kind)} THEN (${value})::${typed} END`;
  return `ALTER TABLE ${qualified(schema, table)}\n  ADD COLUMN ${identifier(name)} ${typed}\n  GENERATED ALWAYS AS (${kept}) STORED`;
}
