/**
 * Formats JSON on several lines without parsing its values: tokens are indented and copied character for character, so
 * that `12345678901234567890`, `10.00` and `1e400` are unchanged. Takes a text, returns tokens, or null if it is not
 * JSON or too deeply nested. Pure, one pass.
 */
export interface JsonToken {
  readonly text: string;
  readonly kind: 'key' | 'string' | 'number' | 'word' | 'mark' | 'space';
}

const depthMax = 512;
const token = /\s+|"(?:[^"\\]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:]/y;

export function prettyJson(text: string): readonly JsonToken[] | null {
  const tokens: JsonToken[] = [];
  const open: string[] = [];
  /** What may come next. */
  let wants: 'value' | 'first value' | 'key' | 'first key' | 'colon' | 'end' = 'value';
  const line = (): void => void tokens.push({ text: `\n${'  '.repeat(open.length)}`, kind: 'space' });
  const done = (): void => void (wants = 'end');
  token.lastIndex = 0;
  while (token.lastIndex < text.length) {
    const found: string | undefined = token.exec(text)?.[0];
    if (found === undefined) return null;
    const first = found[0] ?? '';
    if (' \t\r\n'.includes(first)) continue;
    if (first === '}' || first === ']') {
      const empty = wants === 'first value' || wants === 'first key';
      if (open.pop() !== (first === '}' ? '{' : '[') || !(empty || wants === 'end')) return null;
      if (!empty) line();
      tokens.push({ text: first, kind: 'mark' });
      done();
    } else if (wants === 'end') {
      if (first !== ',' || open.length === 0) return null;
      tokens.push({ text: ',', kind: 'mark' });
      wants = open.at(-1) === '{' ? 'key' : 'value';
    } else if (wants === 'colon') {
      if (first !== ':') return null;
      tokens.push({ text: ': ', kind: 'mark' });
      wants = 'value';
    } else {
      const isKey: boolean = wants === 'key' || wants === 'first key';
      if (',:'.includes(first) || (isKey && first !== '"')) return null;
      if (open.length > 0 && (isKey || open.at(-1) === '[')) line();
      if (first === '{' || first === '[') {
        if (open.push(first) > depthMax) return null;
        tokens.push({ text: first, kind: 'mark' });
        wants = first === '{' ? 'first key' : 'first value';
      } else {
        tokens.push({ text: found, kind: isKey ? 'key' : kindOf(first) });
        wants = isKey ? 'colon' : 'end';
      }
    }
  }
  return open.length === 0 && tokens.length > 0 && wants === 'end' ? tokens : null;
}

function kindOf(first: string): JsonToken['kind'] {
  if (first === '"') return 'string';
  return 'tfn'.includes(first) ? 'word' : 'number';
}
