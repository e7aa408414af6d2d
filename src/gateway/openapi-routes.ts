/**
 * What the OpenAPI document of the gateway says of each route. Takes nothing; the parameters are those of query.ts. Constants only.
 */
import type { RefusalCode } from '../errors/refusals.ts';
import { eventParameters, sqlParameters, streamParameters } from './query.ts';
import type { QueryParameter } from './query.ts';
import type { RouteName } from './routes.ts';

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

/** A route without an entry is not in the document. */
export const operations: { readonly [name in RouteName]?: Operation } = {
  events: {
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
  stream: {
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
  sql: {
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
  health: {
    operationId: 'health',
    summary: 'Check that the gateway runs and reaches its databases',
    answer: { description: 'yes', schema: 'Health' },
    refusals: [],
    open: true,
  },
};
