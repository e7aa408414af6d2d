/**
 * What an expression reads of a request: its headers, its target and what else stands for a name. Takes a node of the tree; returns the closure that
 * reads it. Raises an error for a header that is not UTF-8 and, if all headers are read, for one that arrived twice.
 */
import { EvaluationError } from './errors.ts';
import { headerText, isNamed } from './closures.ts';
import type { Evaluate, HeaderSlots } from './closures.ts';
import { queryObject } from './form.ts';
import { jsonOf } from './jsonb.ts';
import type { JsonValue } from './jsonb.ts';
import type { NodeOf } from './node.ts';
import { timestampOfMs } from './timestamp.ts';

/** `headers`: where a request's values are found. */
export function headerOf(node: NodeOf<'header'>, headers: HeaderSlots): Evaluate {
  const { name } = node;
  if (node.type === 'text[]') return ({ request }) => headerValues(request.rawHeaders, name);
  const at = headers.slotOf(name);
  if (node.type === 'text') return ({ headers: { values } }) => headerText(values[at] ?? null);
  return ({ headers: { values } }) => {
    const text = headerText(values[at] ?? null);
    return text === null ? null : jsonOf(text);
  };
}

export function variableOf(node: NodeOf<'variable'>, publicUrl: string | null): Evaluate {
  switch (node.name) {
    case 'headers':
      return ({ request }) => allHeaders(request.rawHeaders);
    case 'payload':
      return ({ request }) => request.body;
    case 'encoded_body':
      return ({ request }) => request.encodedBody ?? request.body;
    case 'method':
      return ({ request }) => request.method;
    case 'path':
      return ({ request }) => pathOf(request.target);
    case 'query':
      return ({ request }) => queryOf(request.target);
    case 'url':
      return publicUrl === null ? () => null : ({ request }) => urlOf(publicUrl, request.target);
    default:
      return ({ request }) => timestampOfMs(request.arrivedAtMs);
  }
}

/** All values of one header; null: it is absent. */
function headerValues(rawHeaders: readonly string[], name: string): readonly string[] | null {
  const values: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2)
    if (isNamed(rawHeaders[at] ?? '', name)) values.push(headerText(rawHeaders[at + 1] ?? '') ?? '');
  return values.length === 0 ? null : values;
}

/** All headers as one JSON object with lower-case names. Any header that arrived twice raises an error, because it is read, too. */
function allHeaders(rawHeaders: readonly string[]): JsonValue {
  const object = Object.create(null) as Record<string, string>;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase();
    if (name in object) throw new EvaluationError('22023', 'a header arrived twice');
    object[name] = headerText(rawHeaders[at + 1] ?? '') ?? '';
  }
  return jsonOf(object);
}

/** Up to the question mark, not decoded. */
function pathOf(target: string): string {
  const at = target.indexOf('?');
  return at < 0 ? target : target.slice(0, at);
}

/** The fields after the question mark, decoded; of several with the same name, the last. */
function queryOf(target: string): JsonValue {
  const at = target.indexOf('?');
  return jsonOf(queryObject(at < 0 ? '' : target.slice(at + 1)));
}

/** As the sender calls it: the public address, followed by path and query as received. */
function urlOf(publicUrl: string, target: string): string {
  return (publicUrl.endsWith('/') ? publicUrl.slice(0, -1) : publicUrl) + target;
}
