/**
 * The values of a request as SQL sees them: the text of a header, all headers, the parts of its target. Takes what has arrived; returns values. Raises an
 * error for a header that is not UTF-8 and, if all headers are read, for one that arrived twice. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { isNamed } from '../kit/header.ts';
import { EvaluationError } from './errors.ts';
import { queryObject } from './form.ts';
import { jsonOf } from './jsonb.ts';
import type { JsonValue } from './jsonb.ts';

/**
 * A header's value as text. node:http returns each byte as one character; the bytes are read as UTF-8, and invalid
 * bytes raise an error, as in convert_from().
 */
export function headerText(value: string | null): string | null {
  if (value === null) return null;
  for (let i = 0; i < value.length; i++) {
    if (value.charCodeAt(i) >= 0x80) return decoded(value);
  }
  return value;
}

function decoded(value: string): string {
  const bytes = Buffer.from(value, 'latin1');
  if (!isUtf8(bytes)) throw new EvaluationError('22021', 'a header is not UTF-8');
  return bytes.toString('utf8');
}

/** All values of one header; null: it is absent. */
export function headerValues(rawHeaders: readonly string[], name: string): readonly string[] | null {
  const values: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2)
    if (isNamed(rawHeaders[at] ?? '', name)) values.push(headerText(rawHeaders[at + 1] ?? '') ?? '');
  return values.length === 0 ? null : values;
}

/** All headers as one JSON object with lower-case names. Any header that arrived twice raises an error, because it is read, too. */
export function allHeaders(rawHeaders: readonly string[]): JsonValue {
  const object = Object.create(null) as Record<string, string>;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase();
    if (name in object) throw new EvaluationError('22023', 'a header arrived twice');
    object[name] = headerText(rawHeaders[at + 1] ?? '') ?? '';
  }
  return jsonOf(object);
}

/** Up to the question mark, not decoded. */
export function pathOf(target: string): string {
  const at = target.indexOf('?');
  return at < 0 ? target : target.slice(0, at);
}

/** The fields after the question mark, decoded; of several with the same name, the last. */
export function queryOf(target: string): JsonValue {
  const at = target.indexOf('?');
  return jsonOf(queryObject(at < 0 ? '' : target.slice(at + 1)));
}

/** As the sender calls it: the public address, followed by path and query as received. */
export function urlOf(publicUrl: string, target: string): string {
  return (publicUrl.endsWith('/') ? publicUrl.slice(0, -1) : publicUrl) + target;
}
