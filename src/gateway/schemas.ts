/**
 * What the routes of the events gateway take and give, in JSON Schema: `GET /v1/openapi.json` is made from it. Bodies
 * are read by the routes themselves, byte by byte, so these say what they hold and do not check it.
 */
const failure = (description: string) => ({
  description,
  type: 'object',
  properties: { error: { type: 'string' }, code: { type: 'string' } },
  required: ['error', 'code'],
});
const database = {
  type: 'string',
  description: 'which database; the default one when absent',
};
const common = {
  401: failure('the bearer token is missing or wrong'),
  403: failure('a foreign Origin or Host'),
  404: failure('no such database or table'),
  413: failure('the body is too large'),
  429: failure('too many requests from this address'),
  503: failure('not now: send the request again after Retry-After seconds'),
};
const security = [{ bearer: [] }];

export const eventsSchema = {
  operationId: 'insertEvents',
  summary: 'Insert one JSON object, or one a line (NDJSON), into a table that exists',
  description: 'All or nothing. Answered after the commit. Content-Encoding: gzip is accepted.',
  security,
  consumes: ['application/json', 'application/x-ndjson'],
  querystring: {
    type: 'object',
    required: ['name'],
    properties: {
      name: { type: 'string', minLength: 1, description: 'table or schema.table, quoted as in SQL' },
      database,
      on_error: {
        type: 'string',
        enum: ['fail', 'skip'],
        default: 'fail',
        description: 'skip: commit the good lines and list the bad ones',
      },
      on_conflict: {
        type: 'string',
        enum: ['error', 'update', 'ignore'],
        default: 'error',
        description: 'what becomes of a row whose primary key is there already',
      },
    },
  },
  response: {
    200: {
      description: 'committed',
      type: 'object',
      required: ['rows'],
      properties: {
        rows: { type: 'integer' },
        skipped: {
          type: 'array',
          description: 'with on_error=skip: the lines that were left out, at most 1000 of them',
          items: {
            type: 'object',
            properties: { line: { type: 'integer' }, error: { type: 'string' } },
          },
        },
        skippedTotal: { type: 'integer' },
      },
    },
    400: failure('malformed request'),
    422: failure('a line is not a JSON object, or does not fit the table; nothing was stored'),
    ...common,
  },
};

const result = {
  columns: {
    type: 'array',
    items: { type: 'object', properties: { name: { type: 'string' }, type: { type: 'string' } } },
  },
  rows: { type: 'array', items: { type: 'object', additionalProperties: true } },
  rowsAffected: { type: 'integer' },
  command: { type: 'string' },
};

export const sqlSchema = {
  operationId: 'runSql',
  summary: 'Run SQL: the body itself, or {"sql": "…", "params": […]}',
  description:
    'Several statements are one transaction unless they say otherwise; the last result is told, and all in `results`. Numbers keep their digits.',
  security,
  consumes: ['text/plain', 'application/json'],
  querystring: { type: 'object', properties: { database } },
  response: {
    200: {
      description: 'done',
      type: 'object',
      required: ['columns', 'rows', 'rowsAffected'],
      properties: {
        ...result,
        results: { type: 'array', items: { type: 'object', properties: result } },
        notices: {
          type: 'array',
          items: {
            type: 'object',
            properties: { severity: { type: 'string' }, message: { type: 'string' } },
          },
        },
      },
    },
    400: {
      description: 'an SQL error; `code` is its SQLSTATE, `position` counts characters from 1',
      type: 'object',
      required: ['error', 'code'],
      properties: {
        error: { type: 'string' },
        code: { type: 'string' },
        position: { type: 'integer' },
        detail: { type: 'string' },
        hint: { type: 'string' },
      },
    },
    ...common,
  },
};

export const healthSchema = {
  operationId: 'health',
  summary: 'Is the gateway there, and can it reach its databases',
  response: {
    200: { description: 'yes', type: 'object', properties: { status: { type: 'string' } } },
    503: failure('a database cannot be reached'),
  },
};

export const openapi = (version: string) => ({
  openapi: {
    openapi: '3.0.3',
    info: { title: 'Headgate events gateway', version },
    components: { securitySchemes: { bearer: { type: 'http' as const, scheme: 'bearer' } } },
  },
});
