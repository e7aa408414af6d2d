/** The parts of the request target, as received. */
import { queryObject } from './form.ts';
import { type JsonValue, jsonOf } from './jsonb.ts';

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
