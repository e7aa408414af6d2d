/** Request headers, read directly from the request, or from the alternating names and values as node:http received them. */
import { isUtf8 } from 'node:buffer';
import type { CheckRequest } from '../types/request.ts';
import { EvaluationError } from './errors.ts';
import { type JsonValue, jsonOf } from './jsonb.ts';
import type { Node } from './node.ts';

/** Whether a name as received is `wanted`, which is already in lower case. */
function isNamed(received: string, wanted: string): boolean {
  if (received.length !== wanted.length) return false;
  for (let i = 0; i < wanted.length; i++) {
    const code = received.charCodeAt(i);
    const lower = code >= 65 && code <= 90 ? code + 32 : code;
    if (lower !== wanted.charCodeAt(i)) return false;
  }
  return true;
}

/** The headers that an expression names, found in one pass over the request's. */
export class HeaderSlots {
  readonly names: string[] = [];
  readonly values: (string | null)[] = [];

  slotOf(name: string): number {
    const known = this.names.indexOf(name);
    if (known >= 0) return known;
    this.values.push(null);
    return this.names.push(name) - 1;
  }

  /** false: one of the named headers arrived twice. */
  fill(request: Pick<CheckRequest, 'header' | 'rawHeaders'>): boolean {
    const { names, values } = this;
    const { header } = request;
    if (header !== undefined) {
      for (let slot = 0; slot < names.length; slot++) {
        const value = header(names[slot] ?? '');
        if (value === undefined) return false;
        values[slot] = value;
      }
      return true;
    }
    const { rawHeaders } = request;
    values.fill(null);
    for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
      const received = rawHeaders[at] ?? '';
      for (let slot = 0; slot < names.length; slot++) {
        if (!isNamed(received, names[slot] ?? '')) continue;
        if (values[slot] !== null) return false;
        values[slot] = rawHeaders[at + 1] ?? '';
      }
    }
    return true;
  }

  /** Of the headers that may arrive once only. */
  static of(nodes: Iterable<Node>): HeaderSlots {
    const slots = new HeaderSlots();
    for (const node of nodes) if (node.kind === 'header' && node.type !== 'text[]') slots.slotOf(node.name);
    return slots;
  }

  clear(): void {
    this.values.fill(null);
  }
}

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
