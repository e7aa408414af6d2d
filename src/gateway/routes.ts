/**
 * The routes of the events gateway, as one table: used for serving (door.ts) and for the OpenAPI document (openapi.ts).
 * Takes a method and a request target, returns the route, or the refusal: `malformed_path`, `route_unknown`,
 * `method_not_allowed`. Pure.
 */
import { refusal } from '../errors/refusals.ts';
import type { Refusal, RefusalCode } from '../errors/refusals.ts';
import { eventParameters, sqlParameters, streamParameters } from './query.ts';
import type { QueryParameter } from './query.ts';

export type RouteName = 'events' | 'stream' | 'sql' | 'health' | 'openapi' | 'metrics';

export interface GatewayRoute {
  readonly name: RouteName;
  readonly method: 'get' | 'post';
  readonly path: string;
  /** null: not in the document. */
  readonly operation: Operation | null;
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: Readonly<Record<string, QueryParameter>>;
  /** By media type, the usual one first. The Content-Type of a body does not matter. */
  readonly body?: Readonly<Record<string, object>>;
  /** `schema` of a JSON document; null: server-sent events. */
  readonly answer: { readonly description: string; readonly schema: string | null };
  /** In addition to those of every route. */
  readonly refusals: readonly RefusalCode[];
  /** Also answers with the engine's own errors and their SQLSTATE. */
  readonly sqlErrors?: true;
  /** Requires no token. */
  readonly open?: true;
}

const ofBoth = [
  'malformed_query',
  'database_closed',
  'database_unknown',
  'body_too_large',
  'commit_unknown',
] as const satisfies readonly RefusalCode[];

const ofEvents = [
  ...ofBoth,
  'token_scope',
  'relation_not_writable',
  'key_missing',
  'relation_not_found',
  'body_not_json',
  'payload_undecodable',
  'no_column_matched',
  'row_refused',
  'version_missing',
  'event_not_object',
  'deadline',
  'lane_full',
  'table_changed',
] as const satisfies readonly RefusalCode[];

const ofStream = [
  'malformed_query',
  'database_closed',
  'database_unknown',
  'relation_not_found',
  'relation_not_streamed',
  'position_lost',
] as const satisfies readonly RefusalCode[];

const ofSql = [...ofBoth, 'result_too_large', 'results_full'] as const satisfies readonly RefusalCode[];

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

export const eventsPath = '/v1/events';
export const sqlPath = '/v1/sql';

export const routes: readonly GatewayRoute[] = [
  {
    name: 'events',
    method: 'post',
    path: eventsPath,
    operation: {
      operationId: 'insertEvents',
      summary: 'Insert one JSON object, or several as NDJSON, into an existing table',
      description: 'All or nothing. Answered after the commit. Content-Encoding: gzip is accepted.',
      parameters: eventParameters,
      body: {
        'application/json': ref('Event'),
        'application/x-ndjson': { type: 'string', description: 'one JSON object per line' },
      },
      answer: { description: 'committed', schema: 'EventsAnswer' },
      refusals: ofEvents,
    },
  },
  {
    name: 'stream',
    method: 'get',
    path: eventsPath,
    operation: {
      operationId: 'followRows',
      summary:
        'Follow the rows of a table as they are committed: as server-sent events, or as NDJSON if Accept begins with it',
      description:
        'Each row at least once. `data` is a row as one JSON object, `id` the position after it: send it as Last-Event-ID, or as `after`, to continue there. An event `refused` ends the stream. In NDJSON `row` is the row, `position` the id, and `refused` the end.',
      parameters: streamParameters,
      answer: { description: 'rows, until one side leaves', schema: null },
      refusals: ofStream,
      sqlErrors: true,
    },
  },
  {
    name: 'sql',
    method: 'post',
    path: sqlPath,
    operation: {
      operationId: 'runSql',
      summary: 'Run SQL: the body itself, {"sql": "…", "params": […]}, or {"sql": "…", "each": [[…], …]}',
      description:
        'Several statements are one transaction unless they say otherwise; the last result is told, and all in `results`. Numbers keep their digits.',
      parameters: sqlParameters,
      body: {
        'application/json': ref('SqlStatement'),
        'text/plain': { type: 'string', minLength: 1, description: 'SQL' },
      },
      answer: { description: 'done', schema: 'SqlAnswer' },
      refusals: ofSql,
      sqlErrors: true,
    },
  },
  {
    name: 'health',
    method: 'get',
    path: '/v1/healthz',
    operation: {
      operationId: 'health',
      summary: 'Check that the gateway runs and reaches its databases',
      answer: { description: 'yes', schema: 'Health' },
      refusals: [],
      open: true,
    },
  },
  { name: 'openapi', method: 'get', path: '/v1/openapi.json', operation: null },
  { name: 'metrics', method: 'get', path: '/v1/metrics', operation: null },
];

/** HEAD is answered like GET, without a body; a stream makes no sense without one. */
export function routeOf(method: string, target: string): GatewayRoute | Refusal {
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
export function targetRefusal(target: string): Refusal | null {
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
