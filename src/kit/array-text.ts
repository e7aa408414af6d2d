/**
 * Arrays as PostgreSQL writes them, to and from JSON: `{1,2,NULL,"a b"}`, `[0:1]={…}`, `{{1,2},{3,4}}`. Takes text,
 * returns text; null if the text does not have that form. Pure. Source: PostgreSQL's manual, "Array Input and Output Syntax".
 */

/** `element` makes JSON of the text of one element. An array's bounds are left out: JSON has none. */
export function arrayTextToJson(
  array: string,
  delimiter: string,
  element: (text: string) => string,
): string | null {
  const start = array.startsWith('[') ? array.indexOf('=') + 1 : 0;
  const out: string[] = [];
  let depth = 0;
  let first = true;
  for (let at = start; at < array.length;) {
    const char = array[at] ?? '';
    if (char === '}') {
      out.push(']');
      depth--;
      first = false;
      at++;
      if (depth === 0) return at === array.length ? out.join('') : null;
      continue;
    }
    if (char === delimiter) {
      at++;
      continue;
    }
    if (!first) out.push(',');
    first = false;
    if (char === '{') {
      out.push('[');
      depth++;
      first = true;
      at++;
      continue;
    }
    if (depth === 0) return null;
    const item = char === '"' ? quotedItem(array, at) : plainItem(array, at, delimiter);
    if (item === null) return null;
    out.push(char !== '"' && item.text.toUpperCase() === 'NULL' ? 'null' : element(item.text));
    at = item.end;
  }
  return null;
}

interface ArrayItem {
  readonly text: string;
  readonly end: number;
}

function quotedItem(array: string, start: number): ArrayItem | null {
  let text = '';
  for (let at = start + 1, from = at; at < array.length; at++) {
    const char = array[at];
    if (char === '\\') {
      text += array.slice(from, at);
      from = at + 1;
      at++;
    } else if (char === '"') {
      return { text: text + array.slice(from, at), end: at + 1 };
    }
  }
  return null;
}

function plainItem(array: string, start: number, delimiter: string): ArrayItem {
  let end = start;
  while (end < array.length && array[end] !== delimiter && array[end] !== '}') end++;
  return { text: array.slice(start, end), end };
}

/** Texts, nested arrays and nulls that are to be written as an array of PostgreSQL. */
export type ArrayValue = readonly (string | null | ArrayValue)[];

export function arrayText(values: ArrayValue): string {
  const items = values.map((value) => {
    if (value === null) return 'NULL';
    if (typeof value !== 'string') return arrayText(value);
    return `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
  });
  return `{${items.join(',')}}`;
}
