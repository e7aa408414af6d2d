/** The grammar of form bodies and query strings: `name=value&…`, `+` for a blank, `%XX` for a byte. */

/** Name and value of each field as they were written; a field without `=` has the value ''. */
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

/** The bytes that a part stands for. A `%` that two hexadecimal digits do not follow stands for itself, as browsers read it. */
export function formPartBytes(part: string): Buffer {
  const source = Buffer.from(part, 'utf8');
  const out = Buffer.allocUnsafe(source.length);
  let length = 0;
  for (let at = 0; at < source.length; at++) {
    const byte = source[at] ?? 0;
    const pair = byte === 0x25 ? source.toString('latin1', at + 1, at + 3) : '';
    if (/^[0-9a-f]{2}$/i.test(pair)) {
      out[length++] = Number.parseInt(pair, 16);
      at += 2;
    } else out[length++] = byte === 0x2b ? 0x20 : byte;
  }
  return out.subarray(0, length);
}
