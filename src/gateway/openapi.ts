/**
 * The OpenAPI document of the events gateway, served by `GET /v1/openapi.json`: made from the tables of its parameters
 * (query.ts), of its bodies (openapi-schemas.ts), of Headgate's refusals, and of the routes (routes.ts). Pure.
 */
import { refusals } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import { lineMember, refusalSchema, requestIdMember, schemas } from './openapi-schemas.ts';
import type { QueryParameter } from './query.ts';
import { routes } from './routes.ts';
import type { Operation } from './routes.ts';
import { streamTypes } from './stream-formats.ts';

const everywhere = [
  'malformed_request',
  'malformed_path',
  'request_aborted',
  'address_refused',
  'page_refused',
  'host_refused',
  'method_not_allowed',
  'request_timeout',
  'path_too_long',
  'encoding_unsupported',
  'expectation_failed',
  'rate_limited',
  'sender_overloaded',
  'headers_too_large',
  'internal',
  'engine_unavailable',
  'overloaded',
  'draining',
] as const satisfies readonly RefusalCode[];

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** `asksForToken`: requests must carry a bearer token. */
export function openapiDocument(version: string, asksForToken: boolean): object {
  const paths: Record<string, object> = {};
  for (const { method, path, operation } of routes)
    if (operation !== null)
      paths[path] = { ...paths[path], [method]: operationObject(operation, asksForToken) };
  return {
    openapi: '3.0.3',
    info: {
      title: 'Headgate events gateway',
      version,
      description: 'JSON events into tables, and SQL, over HTTP.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: [{ url: '/', description: 'where this document comes from' }],
    security: asksForToken ? [{ bearer: [] }] : [],
    paths,
    components: {
      schemas,
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  };
}

function operationObject(route: Operation, asksForToken: boolean): object {
  const { operationId, summary, description, parameters, body } = route;
  return {
    operationId,
    summary,
    ...(description === undefined ? {} : { description }),
    ...(route.open === true ? { security: [] } : {}),
    ...(parameters === undefined ? {} : { parameters: Object.entries(parameters).map(parameter) }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: content(body) } }),
    responses: { 200: done(route), ...refused(route, asksForToken) },
  };
}

function parameter([name, { description, required, values }]: [string, QueryParameter]): object {
  const limited = values === undefined ? {} : { enum: values, default: values[0] };
  return {
    name,
    in: 'query',
    description,
    required: required === true,
    schema: { type: 'string', ...(required === true ? { minLength: 1 } : {}), ...limited },
  };
}

const content = (byType: Readonly<Record<string, object>>): object =>
  Object.fromEntries(Object.entries(byType).map(([type, schema]) => [type, { schema }]));

const requestId = {
  'X-Request-Id': {
    description: 'of the request, or made for it; the log has it too',
    schema: { type: 'string' },
  },
};

function done({ answer }: Operation): object {
  return {
    description: answer.description,
    headers: requestId,
    content: content(
      answer.schema === null
        ? Object.fromEntries(streamTypes.map((type) => [type, { type: 'string' }]))
        : { 'application/json': ref(answer.schema) },
    ),
  };
}

/** All refusals by status. */
function refused(route: Operation, asksForToken: boolean): Readonly<Record<string, object>> {
  const token: readonly RefusalCode[] = asksForToken && route.open !== true ? ['token_required'] : [];
  const byStatus = new Map<number, RefusalCode[]>();
  for (const code of [...everywhere, ...token, ...route.refusals]) {
    const { status } = refusals[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const entries = [...byStatus].toSorted(([a], [b]) => a - b);
  return Object.fromEntries(entries.map(([status, codes]) => [status, refusedWith(route, status, codes)]));
}

function refusedWith(route: Operation, status: number, codes: readonly RefusalCode[]): object {
  const more = status === 422 ? lineMember : status === 500 ? requestIdMember : {};
  const own = refusalSchema(codes, more);
  const tellsSqlstate = route.sqlErrors === true && (status === 400 || status === 503);
  return {
    description: codes.map((code) => `${code}: ${refusals[code].message}`).join('; '),
    headers: { ...requestId, ...headersOf[status] },
    content: content({ 'application/json': tellsSqlstate ? { anyOf: [own, ref('SqlError')] } : own }),
  };
}

const retryAfter = {
  'Retry-After': {
    description: 'seconds, after which the request can be sent again',
    schema: { type: 'integer', minimum: 1 },
    required: true,
  },
};

const headersOf: Readonly<Record<number, object>> = {
  401: { 'WWW-Authenticate': { description: 'the kind of token', schema: { type: 'string' } } },
  405: { Allow: { description: 'the methods of the path', schema: { type: 'string' } } },
  429: retryAfter,
  503: retryAfter,
};
