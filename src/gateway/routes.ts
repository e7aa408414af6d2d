/**
 * The routes of the events gateway. Takes a method and a request target, returns the route, or the refusal: `malformed_path`, `route_unknown`,
 * `method_not_allowed`. What the OpenAPI document says of them is in openapi-routes.ts. Pure.
 */
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';

export type RouteName = 'events' | 'stream' | 'sql' | 'health' | 'openapi' | 'metrics';

export interface GatewayRoute {
  readonly name: RouteName;
  readonly method: 'get' | 'post';
  readonly path: string;
}

export const eventsPath = '/v1/events';
export const sqlPath = '/v1/sql';

export const routes: readonly GatewayRoute[] = [
  { name: 'events', method: 'post', path: eventsPath },
  { name: 'stream', method: 'get', path: eventsPath },
  { name: 'sql', method: 'post', path: sqlPath },
  { name: 'health', method: 'get', path: '/v1/healthz' },
  { name: 'openapi', method: 'get', path: '/v1/openapi.json' },
  { name: 'metrics', method: 'get', path: '/v1/metrics' },
];

/** HEAD is answered like GET, without a body; a stream makes no sense without one. */
export function routeOf(method: string, target: string): GatewayRoute | Refusal {
  const malformed = targetRefusal(target);
  if (malformed !== null) return malformed;
  const path = pathOf(target);
  const there = routes.filter((route) => route.path === path);
  const wanted = method === 'POST' ? 'post' : method === 'GET' || method === 'HEAD' ? 'get' : null;
  const route = there.find((it) => it.method === wanted && (it.name !== 'stream' || method === 'GET'));
  if (route !== undefined) return route;
  if (there.length === 0) return refusal('route_unknown');
  const allowed = there.flatMap(({ name, method }) =>
    method === 'post' ? ['POST'] : name === 'stream' ? ['GET'] : ['GET', 'HEAD'],
  );
  const [only = '', other] = allowed.toSorted();
  const message = `only ${other === undefined ? `${only} is` : `${only} and ${other} are`} allowed here`;
  return { ...refusal('method_not_allowed', message), allow: allowed.toSorted().join(', ') };
}

/**
 * The path of a target, with escapes decoded except those of reserved characters. Proxies may send the absolute form
 * (RFC 9112 §3.2.2), which names the same path.
 */
function pathOf(target: string): string {
  const origin = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]*/i, '');
  const query = origin.indexOf('?');
  const path = query < 0 ? origin : origin.slice(0, query);
  return path.includes('%') ? decodeURI(path) : path;
}

/** With a fragment or an invalid escape, the client means another path than the gateway would read. */
function targetRefusal(target: string): Refusal | null {
  if (target.includes('#')) return refusal('malformed_path', 'a request target has no fragment');
  const [path = ''] = target.split('?', 1);
  if (!path.includes('%')) return null;
  try {
    decodeURIComponent(path);
    return null;
  } catch {
    return refusal('malformed_path', 'the path is not percent-encoded UTF-8');
  }
}
