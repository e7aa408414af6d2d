/** Form bodies and query strings: `name=value&…`, `+` for a blank, `%XX` for bytes, all of it UTF-8. */
import { limits } from '../limits.ts';
import { bytesToText } from './bytea.ts';
import { EvaluationError } from './errors.ts';
import { compareTexts } from './text.ts';

const escape = /[%+]/;

/** A `%` that two hexadecimal digits do not follow stands for itself, as browsers read it. */
function decodePart(part: string): string {
  if (!escape.test(part)) return part;
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
  return bytesToText(out.subarray(0, length), 'UTF8');
}

export function formFields(text: string): (readonly [string, string])[] {
  const fields: (readonly [string, string])[] = [];
  for (let from = 0; from < text.length;) {
    const found = text.indexOf('&', from);
    const end = found < 0 ? text.length : found;
    if (end > from) {
      if (fields.length >= limits.expressionFormFieldsMax) {
        throw new EvaluationError('54000', `a form of more than ${limits.expressionFormFieldsMax} fields`);
      }
      const field = text.slice(from, end);
      const equals = field.indexOf('=');
      fields.push(
        equals < 0
          ? [decodePart(field), '']
          : [decodePart(field.slice(0, equals)), decodePart(field.slice(equals + 1))],
      );
    }
    from = end + 1;
  }
  return fields;
}

/** The last of several fields with one name wins, as the last of several keys does in jsonb. */
export function formObject(text: string): Record<string, string> {
  const object = Object.create(null) as Record<string, string>;
  for (const [name, value] of formFields(text)) object[name] = value;
  return object;
}

/** Name and value of every field in the order of names, then values; the same pair counts once (Twilio, Mandrill). */
export function formSorted(text: string): string {
  const fields = formFields(text).sort((a, b) => compareTexts(a[0], b[0]) || compareTexts(a[1], b[1]));
  return fields
    .filter((field, i) => i === 0 || field[0] !== fields[i - 1]?.[0] || field[1] !== fields[i - 1]?.[1])
    .map(([name, value]) => name + value)
    .join('');
}
