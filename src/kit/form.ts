/** The grammar of form bodies and query strings: `name=value&…`, `+` for a space, `%XX` for a byte. */

import { hexDigit } from './json-grammar.ts';

/** Name and value of each field as written; a field without `=` has the value ''. */
export function* formParts(text: string): Generator<readonly [name: string, value: string]> {
  for (let from = 0; from < text.length;) {
    const found = text.indexOf('&', from);
    const end = found < 0 ? text.length : found;
    if (end > from) {
      const field = text.slice(from, end);
      const equals = field.indexOf('=');
      yield equals < 0 ? [field, ''] : [field.slice(0, equals), field.slice(equals + 1)];
    }
    from = end + 1;
  }
}

export function isEscapedPart(part: string): boolean {
  return /[%+]/.test(part);
}

/** The bytes that a part stands for. A `%` that is not followed by two hexadecimal digits stands for itself, as in browsers. */
export function formPartBytes(part: string): Buffer {
  const source = Buffer.from(part, 'utf8');
  const out = Buffer.allocUnsafe(source.length);
  let length = 0;
  for (let at = 0; at < source.length; at++) {
    const byte = source[at] ?? 0;
    const high = byte === 0x25 ? hexDigit(source[at + 1] ?? 0) : -1;
    const low = high < 0 ? -1 : hexDigit(source[at + 2] ?? 0);
    if (low >= 0) {
      out[length++] = high * 16 + low;
      at += 2;
    } else out[length++] = byte === 0x2b ? 0x20 : byte;
  }
  return out.subarray(0, length);
}
