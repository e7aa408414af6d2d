/**
 * Values inside a JSON text, with every digit as written: JSON.parse turns 12345678901234567890 into another
 * number. Takes a text that JSON.parse has accepted; returns the raw texts of members and items. Pure.
 */

const blank = /[ \t\n\r]*/y;
/** A number, true, false or null. */
const bare = /[^\s,\]}]+/y;

function skip(text: string, at: number): number {
  if (text.charCodeAt(at) > 0x20) return at;
  blank.lastIndex = at;
  blank.test(text);
  return blank.lastIndex;
}

/** Past the string or bare word that starts at `at`. A loop: a regular expression that backtracks would need a stack. */
function scalarEnd(text: string, at: number): number {
  if (text[at] !== '"') {
    bare.lastIndex = at;
    return bare.test(text) ? bare.lastIndex : text.length;
  }
  for (let quote = text.indexOf('"', at + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let before = quote;
    while (text[before - 1] === '\\') before--;
    if ((quote - before) % 2 === 0) return quote + 1;
  }
  return text.length;
}

/** Past the value that starts at `at`; no recursion, because nesting is the sender's choice. */
function valueEnd(text: string, at: number): number {
  if (text[at] !== '{' && text[at] !== '[') return scalarEnd(text, at);
  let depth = 0;
  for (let here = at; here < text.length;) {
    const char = text[here];
    if (char === '{' || char === '[') {
      depth++;
      here++;
    } else if (char === '}' || char === ']') {
      depth--;
      here++;
    } else if (
      char === ',' ||
      char === ':' ||
      char === ' ' ||
      char === '\n' ||
      char === '\r' ||
      char === '\t'
    ) {
      here++;
      continue;
    } else {
      here = scalarEnd(text, here);
    }
    if (depth === 0) return here;
  }
  return text.length;
}

/** The value of a raw JSON string. */
export function stringOf(raw: string): string {
  return raw.includes('\\') ? (JSON.parse(raw) as string) : raw.slice(1, -1);
}

/** The members of an object, raw; of two with the same name the last one counts, as in JSON.parse. */
export function objectMembers(text: string): Map<string, string> {
  const members = new Map<string, string>();
  let at = skip(text, skip(text, 0) + 1);
  while (text[at] === '"') {
    const keyEnd = scalarEnd(text, at);
    const key = stringOf(text.slice(at, keyEnd));
    at = skip(text, skip(text, keyEnd) + 1);
    const end = valueEnd(text, at);
    members.set(key, text.slice(at, end));
    at = skip(text, end);
    if (text[at] === ',') at = skip(text, at + 1);
  }
  return members;
}

/** The items of an array, raw. */
export function arrayItems(text: string): string[] {
  const items: string[] = [];
  let at = skip(text, skip(text, 0) + 1);
  while (at < text.length && text[at] !== ']') {
    const end = valueEnd(text, at);
    items.push(text.slice(at, end));
    at = skip(text, end);
    if (text[at] === ',') at = skip(text, at + 1);
  }
  return items;
}

/** The members of a JSON object; null: the text is no JSON, or no object. */
export function jsonObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
