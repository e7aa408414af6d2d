/**
 * Forms: their grammar, which is that of query strings, `name=value&…` with `+` for a space and `%XX` for a byte; and their fields, whether
 * they are written so or as multipart/form-data (multipart.ts). Takes bytes; throws FormProblem. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { withoutMark, hexDigit } from './json-grammar.ts';
import {
  charsetOf,
  FormProblem,
  openingBoundary,
  type FormPart,
  type PartLimits,
  partsOf,
} from './multipart.ts';

/** Name and value of each field as written; a field without `=` has the value ''. */
function* formParts(text: string): Generator<readonly [name: string, value: string]> {
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

function isEscapedPart(part: string): boolean {
  return /[%+]/.test(part);
}

/** The bytes that a part stands for. A `%` that is not followed by two hexadecimal digits stands for itself, as in browsers. */
function formPartBytes(part: string, encoding: BufferEncoding = 'utf8'): Buffer {
  const source = Buffer.from(part, encoding);
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

export interface FormFile {
  readonly name: string;
  readonly type: string;
  readonly content: Buffer;
}

export type FormField = readonly [name: string, value: string | FormFile];

/**
 * The fields of a form, urlencoded or multipart, in their order; null is a pause. A field is UTF-8 if it can be, otherwise it has the
 * charset that its part, Content-Type or the form itself names. Throws FormProblem.
 */
export function* formFields(
  body: Buffer,
  contentType: string | null,
  limits: PartLimits,
): Generator<FormField | null> {
  const form = withoutMark(body);
  const boundary = openingBoundary(form);
  if (boundary === null) yield* urlencodedFields(form, charsetOf(contentType), limits);
  else yield* multipartFields(form, boundary, limits);
}

export function* urlencodedFields(
  form: Buffer,
  charset: string | null,
  { fieldsMax }: PartLimits,
): Generator<FormField> {
  const encoding = isUtf8(form) ? 'utf8' : 'latin1';
  const text = form.toString(encoding);
  const named = () => charset ?? charsetField(text, encoding);
  const decoded = (part: string): string =>
    encoding === 'utf8' && !isEscapedPart(part) ? part : decodeText(formPartBytes(part, encoding), named);
  let count = 0;
  for (const [name, value] of formParts(text)) {
    if (count++ === fieldsMax) throw new FormProblem(`a form has at most ${fieldsMax} fields`, 'size');
    yield [decoded(name), decoded(value)];
  }
}

/** The charset that a form says it has: PayPal's IPN, and browsers (HTML, "name=_charset_"). */
const charsetFields = ['charset', '_charset_'];

function charsetField(text: string, encoding: BufferEncoding): string | null {
  for (const [name, value] of formParts(text))
    if (charsetFields.includes(name)) return formPartBytes(value, encoding).toString('latin1');
  return null;
}

function* multipartFields(form: Buffer, boundary: string, limits: PartLimits): Generator<FormField | null> {
  const parts: FormPart[] = [];
  for (const part of partsOf(form, boundary, limits)) {
    if (part === null) yield null;
    else parts.push(part);
  }
  for (const { name, fileName, type, content } of parts) {
    if (fileName !== null)
      yield [name, { name: fileName, type: type ?? 'application/octet-stream', content }];
    else yield [name, decodeText(content, () => charsetOf(type) ?? charsetAmong(parts, name))];
  }
}

/** What a form says of its fields: for all of them, or in the field `charsets` for each (SendGrid). */
function charsetAmong(parts: readonly FormPart[], field: string): string | null {
  const all = parts.find(({ name }) => charsetFields.includes(name))?.content.toString('latin1');
  if (all !== undefined) return all;
  const each = parts.find(({ name }) => name === 'charsets')?.content.toString('latin1');
  try {
    const charset = (JSON.parse(each ?? '{}') as Readonly<Record<string, unknown>> | null)?.[field];
    return typeof charset === 'string' ? charset : null;
  } catch {
    return null;
  }
}

function decodeText(bytes: Buffer, charset: () => string | null): string {
  if (isUtf8(bytes)) return bytes.toString('utf8');
  const named = charset();
  let decoder: InstanceType<typeof TextDecoder>;
  try {
    decoder = new TextDecoder(named ?? 'utf-8', { fatal: true, ignoreBOM: true });
  } catch {
    throw new FormProblem('its charset is not known', 'text');
  }
  // Node 20 reads windows-1252 as ISO-8859-1.
  if (decoder.encoding === 'windows-1252')
    return bytes.toString('latin1').replaceAll(/[\x80-\x9f]/g, windows1252);
  try {
    return decoder.decode(bytes);
  } catch {
    throw new FormProblem(`it is not valid ${decoder.encoding.toUpperCase()}`, 'text');
  }
}

/** 80 to 9F of windows-1252, as the Encoding standard has them; by this name it also reads ISO-8859-1 and ASCII. */
const windows1252Upper = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ';

function windows1252(char: string): string {
  return windows1252Upper[char.charCodeAt(0) - 0x80] ?? char;
}

/** Spaces, control characters and what else `URLSearchParams` and every other writer of forms escapes. */
// oxlint-disable-next-line no-control-regex
const neverWritten = /[\x00-\x20"<>\\^`{|}\x7f]/;

/**
 * Whether bytes that nothing calls a form can only be one. Their Content-Type says little: a client of fetch that is given a string calls it
 * text/plain, and some senders call every body so.
 */
export function readsLikeForm(form: Buffer): boolean {
  return form.includes('=') && !neverWritten.test(form.toString('latin1'));
}
