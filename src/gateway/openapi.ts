/**
 * The OpenAPI document of the events gateway, served by `GET /v1/openapi.json`: made from the tables of its parameters
 * (query.ts), of its bodies, of Headgate's refusals, of the routes (routes.ts) and what they do (openapi-routes.ts). Pure.
 */
import { refusals } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import type { QueryParameter } from './query.ts';
import { operations } from './openapi-routes.ts';
import type { Operation } from './openapi-routes.ts';
import { routes } from './routes.ts';
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
  for (const { name, method, path } of routes) {
    const operation = operations[name];
    if (operation !== undefined)
      paths[path] = { ...paths[path], [method]: operationObject(operation, asksForToken) };
  }
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

const text = (description: string) => ({ type: 'string', description });
const integer = (description: string) => ({ type: 'integer', description });
const list = (items: object, description: string) => ({ type: 'array', items, description });

const object = (properties: Readonly<Record<string, object>>, required: readonly string[]) => ({
  type: 'object',
  properties,
  required,
});

const resultMembers = {
  columns: list(ref('Column'), 'in their order'),
  rows: list(ref('Row'), 'each with its columns as members'),
  rowsAffected: integer('as the database counts them'),
  command: text('the command tag, e.g. SELECT'),
};
const resultRequired = ['columns', 'rows', 'rowsAffected', 'command'];

const diagnostics = { detail: text('more about it'), hint: text('what can be done') };

const schemas = {
  Event: {
    type: 'object',
    additionalProperties: true,
    description: 'Members fill the columns of the same name; a missing one leaves the column to its default.',
  },
  EventsAnswer: object(
    {
      rows: integer('committed'),
      stale: integer('of a table with version: rows that were not newer than what it has; absent: none'),
      skipped: list(ref('SkippedLine'), 'with on_error=skip: lines that were left out, at most 1000 of them'),
      skippedTotal: integer('with on_error=skip: how many were left out'),
    },
    ['rows'],
  ),
  SkippedLine: object({ line: integer('from 1'), error: text('why') }, ['line', 'error']),
  SqlStatement: {
    ...object(
      {
        sql: { ...text('one statement if there are params or each, else any number'), minLength: 1 },
        params: list({ nullable: true, description: 'any JSON value' }, 'the values of $1, $2 …'),
        each: list(
          { type: 'array', items: { nullable: true, description: 'any JSON value' } },
          'instead of params: the statement is executed with each of these lists, in one transaction',
        ),
      },
      ['sql'],
    ),
    additionalProperties: false,
  },
  SqlAnswer: object(
    {
      ...resultMembers,
      results: list(ref('SqlResult'), 'of every statement, where there are several'),
      notices: list(ref('Notice'), 'what the database told beside the results'),
    },
    resultRequired,
  ),
  SqlResult: object(resultMembers, resultRequired),
  Column: object({ name: text('as in the rows'), type: text('as format_type prints it') }, ['name', 'type']),
  Row: {
    type: 'object',
    additionalProperties: true,
    description: 'Numbers have every digit that the database printed.',
  },
  Notice: object({ severity: text('e.g. NOTICE'), message: text('one sentence'), ...diagnostics }, [
    'severity',
    'message',
  ]),
  SqlError: object(
    {
      error: text('one sentence'),
      code: { ...text('the SQLSTATE'), pattern: '^[0-9A-Z]{5}$' },
      position: integer('in the SQL as it was sent, in characters from 1'),
      ...diagnostics,
    },
    ['error', 'code'],
  ),
  Health: object({ status: { type: 'string', enum: ['ok'] } }, ['status']),
} as const satisfies Readonly<Record<string, object>>;

/** A refusal of Headgate, with its codes; `more`: further members. */
function refusalSchema(codes: readonly string[], more: Readonly<Record<string, object>> = {}): object {
  return object({ error: text('one sentence'), code: { type: 'string', enum: codes }, ...more }, [
    'error',
    'code',
  ]);
}

const lineMember = { line: integer('the line at fault, from 1') };
const requestIdMember = { request_id: text('by which the log has more') };
