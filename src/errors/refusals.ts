/**
 * THE table of refusals: a stable code, the HTTP status, the SQLSTATE on the SQL door, whether a retry can help,
 * the sentence, and what the reader can do about it. Programs compare the code, never the text.
 * `docs/errors.md` is printed from this table.
 */
import { consoleRefusals } from './refusals-console.ts';
import { deliveryRefusals } from './refusals-deliveries.ts';

interface RefusalKind {
  readonly status: number;
  readonly sqlstate: string;
  readonly retryable: boolean;
  readonly message: string;
  readonly hint: string;
  /**
   * The request is kept for the owner of its table, because the sender or the owner has to act on it. After a 503 the sender sends again; a request that
   * broke off, or names no table, says nothing about a table.
   */
  readonly isKept?: boolean;
  /**
   * The sender does not try again, and the reason is in what Headgate holds of the catalog: it is never given because of what was known before the request
   * arrived (decision 0230). Others that the catalog decides, such as `not_found`, `key_missing` and `token_required`, are given by a stage that has just
   * asked the engine.
   */
  readonly restsOnCatalog?: boolean;
}

const kind = (
  status: number,
  sqlstate: string,
  message: string,
  hint: string,
  more: Pick<RefusalKind, 'isKept' | 'restsOnCatalog'> = {},
): RefusalKind => ({
  status,
  sqlstate,
  retryable: status === 503 || status === 408 || status === 429,
  message,
  hint,
  ...more,
});

export const refusals = {
  malformed_request: kind(400, '08P01', 'malformed HTTP request', 'Send a well-formed HTTP/1.1 request.'),
  request_aborted: kind(
    400,
    '08006',
    'the connection ended before the whole request had arrived',
    'Send the whole body that Content-Length announces, or the last chunk.',
  ),
  malformed_path: kind(
    400,
    '22023',
    'malformed path',
    'The path is /webhook/<database>/<schema>/<table>, each part percent-encoded UTF-8.',
  ),
  invalid_option: kind(
    400,
    '22023',
    'invalid webhook JSON decoder option',
    'A header that begins with x-rw-webhook- has an unknown value; docs/http.md lists the known ones.',
    { isKept: true },
  ),
  malformed_encoding: kind(
    400,
    '22023',
    'the body is not what its Content-Encoding says',
    'Send the whole compressed body and nothing after it.',
    { isKept: true },
  ),
  malformed_payload: kind(
    400,
    '22023',
    'malformed payload',
    'Each WebSocket message is the init frame or one batch, as JSON; batch ids must increase.',
    { isKept: true },
  ),
  signature_failed: kind(
    401,
    '28000',
    'Signature verification failed',
    'The VALIDATE expression of the table was false or NULL, or failed. Check the secret, the header name and the signed bytes.',
    { isKept: true, restsOnCatalog: true },
  ),
  timestamp_skew: kind(
    401,
    '22023',
    'timestamp skew',
    'The timestamp of the init frame must be the time of sending, in ms since 1970; check the clocks.',
    { isKept: true },
  ),
  origin_refused: kind(
    403,
    '42501',
    'pages of this origin may not open a WebSocket here',
    'Add the origin to HEADGATE_WEBSOCKET_ORIGINS.',
  ),
  not_found: kind(
    404,
    '42P01',
    'no such webhook table',
    "Create it with CREATE TABLE … WITH (connector = 'webhook'), or check the database and schema in the path.",
  ),
  relation_not_found: kind(
    404,
    '42P01',
    'no such table',
    'Create the table first, and write its name as in SQL: schema.table, quoted if it is not lower case.',
  ),
  relation_not_streamed: kind(
    400,
    '42809',
    'the rows of this relation cannot be streamed: it is not an ordinary table',
    'Name a table, or one partition of a partitioned table; views and foreign tables have no position.',
  ),
  websocket_unsupported: kind(
    400,
    '0A000',
    'this table accepts no WebSockets, because its rows go to another server',
    'Send each request over HTTP.',
    { restsOnCatalog: true },
  ),
  position_lost: kind(
    410,
    '55000',
    'the position belongs to another table or to a database that was restored, or is too old',
    'Read the table from the beginning (after=0), or only new rows (without a position).',
  ),
  relation_not_writable: kind(
    400,
    '42809',
    'rows cannot be inserted into this relation',
    'Name a table, a partitioned table, or an automatically updatable view.',
  ),
  key_missing: kind(
    400,
    '42P10',
    'the table has no primary key',
    'Rows can replace others, or be skipped, only if a primary key identifies them.',
  ),
  method_not_allowed: kind(405, '0A000', 'only POST is allowed here', 'Send the request with POST.', {
    restsOnCatalog: true,
  }),
  request_timeout: kind(
    408,
    '57014',
    'the request did not arrive in time',
    'Send the whole request within 30 s.',
  ),
  length_required: kind(
    411,
    '22023',
    'a body with Content-Length or Transfer-Encoding: chunked is required',
    'Send the body with its length.',
    { isKept: true },
  ),
  body_too_large: kind(
    413,
    '54000',
    'the body is larger than this endpoint accepts',
    'Send less in one request, or raise HEADGATE_BODY_BYTES_MAX.',
    { isKept: true },
  ),
  path_too_long: kind(414, '54000', 'the request target is too long', 'Use only the path of the table.'),
  encoding_unsupported: kind(
    415,
    '0A000',
    'unsupported content encoding',
    'Send the body as it is, or with Content-Encoding: gzip, deflate or br.',
    { isKept: true },
  ),
  body_not_form: kind(
    415,
    '22P02',
    'the table takes forms, and the body is not a form',
    "Send application/x-www-form-urlencoded or multipart/form-data, with the Content-Type that says so; JSON needs a table with format = 'json'.",
    { isKept: true, restsOnCatalog: true },
  ),
  expectation_failed: kind(
    417,
    '0A000',
    'unsupported expectation',
    'The only supported expectation is Expect: 100-continue.',
  ),
  body_not_json: kind(
    422,
    '22P02',
    'failed to parse request body',
    'The body must be one JSON document that PostgreSQL jsonb can store: UTF-8, no \\u0000, no lone surrogates.',
    { isKept: true, restsOnCatalog: true },
  ),
  payload_undecodable: kind(
    422,
    '22P02',
    'failed to decode webhook JSON payload',
    'Each row must be one JSON object whose values fit the columns of the same names.',
    { isKept: true, restsOnCatalog: true },
  ),
  no_column_matched: kind(
    422,
    '42703',
    'no key of the document is a column of the table',
    "None of it would be stored. Name columns after the keys, or store the whole document: CREATE TABLE … (data JSONB) WITH (connector = 'webhook'), or the option document = 'column'.",
    { isKept: true, restsOnCatalog: true },
  ),
  key_unknown: kind(
    422,
    '42703',
    'the document has a key that is not a column of the table',
    "The table has on_unknown = 'reject'. Add the column, or accept such keys: ALTER TABLE … SET (on_unknown = 'ignore'), or 'collect'.",
    { isKept: true, restsOnCatalog: true },
  ),
  ...deliveryRefusals,
  row_refused: kind(
    422,
    '23000',
    'the row does not fit the table',
    'A constraint or trigger of the table refused the row.',
    { isKept: true, restsOnCatalog: true },
  ),
  address_refused: kind(
    403,
    '42501',
    'requests from this address are not accepted here',
    'The address is outside HEADGATE_LISTEN_NETWORKS (for the events gateway: HEADGATE_GATEWAY_NETWORKS); behind a proxy, see HEADGATE_TRUSTED_PROXIES.',
  ),
  rate_limited: kind(
    429,
    '53400',
    'too many requests',
    'Send the request again after Retry-After; the limits are the RATE settings in docs/settings.md.',
  ),
  sender_overloaded: kind(
    429,
    '53400',
    'too many bytes from this address are in flight',
    'Try again later, or send fewer requests at the same time; behind a proxy, see HEADGATE_TRUSTED_PROXIES.',
  ),
  upgrade_required: kind(
    426,
    '0A000',
    'only WebSocket connections of version 13 are accepted here',
    'Open /ingest/<database>/<schema>/<table> with a WebSocket client; POST goes to /webhook/….',
  ),
  malformed_query: kind(
    400,
    '22023',
    'malformed request to the events gateway',
    'See docs/events-gateway.md, or GET /v1/openapi.json, for the form of the request.',
  ),
  token_required: kind(
    401,
    '28000',
    'a bearer token is required',
    'Send Authorization: Bearer with the token of EVENTS_API_TOKEN, or with a token of CREATE TOKEN that still exists.',
  ),
  token_scope: kind(
    403,
    '42501',
    'the token is not for this table, or its owner has no right to it',
    'A token of CREATE TOKEN can insert into the tables that it names or, FOR SELECT, follow them, as long as its owner and the gateway may; SHOW TOKENS lists them.',
  ),
  page_refused: kind(
    403,
    '42501',
    'web pages of this origin may not call the events gateway',
    'To allow it, add the origin to EVENTS_API_ALLOWED_ORIGINS, or create a token for it: CREATE TOKEN … WITH (origins = …).',
  ),
  host_refused: kind(
    403,
    '42501',
    'the events gateway does not answer to this host name',
    'Call it by its address, or add the name to EVENTS_API_ALLOWED_HOSTS.',
  ),
  route_unknown: kind(
    404,
    '42P01',
    'no such path',
    'The events gateway serves POST and GET /v1/events, POST /v1/sql, GET /v1/healthz and GET /v1/openapi.json.',
  ),
  database_unknown: kind(
    404,
    '3D000',
    'no such database',
    'Check the database parameter of the request, and EVENTS_API_<DB>_DSN.',
  ),
  database_closed: kind(
    403,
    '42501',
    'the database accepts no connections from the role that the gateway logs in as',
    'Name another database, or GRANT CONNECT on this one to that role.',
  ),
  event_not_object: kind(
    422,
    '22023',
    'an event must be one JSON object',
    'Send one JSON object, or one per line (NDJSON); an array is not accepted.',
  ),
  result_too_large: kind(
    400,
    '54000',
    'the result is larger than 64 MiB',
    'Add LIMIT, read it in parts, or read it through a PostgreSQL connection.',
  ),
  headers_too_large: kind(
    431,
    '54000',
    'the request headers are too large',
    'Send fewer or shorter headers.',
  ),
  internal: kind(
    500,
    'XX000',
    'internal error',
    'This is a bug in Headgate; look for the request id in the log.',
  ),
  engine_unavailable: kind(503, '57P03', 'the database is not available', 'Send the request again.'),
  commit_unknown: kind(
    503,
    '08007',
    'the connection to the database was lost while the row was being committed',
    'Send the request again; it may then be stored twice unless the table has a key.',
  ),
  deadline: kind(503, '57014', 'the database did not answer in time', 'Send the request again.'),
  lane_full: kind(503, '53400', 'too many requests are waiting for this table', 'Try again later.'),
  results_full: kind(
    503,
    '53200',
    'other results have used up the memory for results; the SQL may have taken effect',
    'Try again later, if running it twice does no harm; read large results in parts.',
  ),
  overloaded: kind(503, '53400', 'too many requests are in flight', 'Try again later.'),
  table_unusable: kind(
    503,
    '55000',
    'this table cannot accept requests at the moment',
    'Its VALIDATE expression or one of its secrets cannot be used, or a right to store its rows is missing; the log and SHOW ENDPOINTS say which.',
  ),
  chain_broken: kind(
    503,
    '40000',
    'rows sent before these on the same connection were not committed',
    'Send the rows again, in the same order, from the first that was not answered.',
  ),
  table_changed: kind(
    503,
    '40001',
    'the table was changed while the row was being committed',
    'Send the request again.',
  ),
  spool_full: kind(
    503,
    '53100',
    'the database is not available, and no more requests can be kept until it is',
    'Try again later. Bring the database back, or raise HEADGATE_SPOOL_BYTES or HEADGATE_SPOOL_AGE; docs/spool.md.',
  ),
  spooling: kind(
    503,
    '55000',
    'older requests for this table are still on disk and not yet in the database',
    'Send the rows again later: they are accepted once the older requests are in the database.',
  ),
  table_gone: kind(
    503,
    '42P01',
    'the table that the request was kept for no longer exists',
    'Read the request in headgate.rejected_requests as a superuser.',
  ),
  draining: kind(
    503,
    '57P01',
    'Headgate is shutting down',
    'Send the request again; another instance will answer.',
  ),
  ...consoleRefusals,
} as const satisfies Record<string, RefusalKind>;

export type RefusalCode = keyof typeof refusals;

export const isWorthKeeping = (code: RefusalCode): boolean => (refusals[code] as RefusalKind).isKept === true;

export const restsOnCatalog = (code: RefusalCode): boolean =>
  (refusals[code] as RefusalKind).restsOnCatalog === true;

/** One refusal: its code, and its sentence, which may be more precise than the one in the table. */
export interface Refusal {
  readonly code: RefusalCode;
  readonly message: string;
  /** When a retry can help, if that is known more precisely than for the kind. */
  readonly retryAfterSeconds?: number;
  /** The methods that are allowed, for method_not_allowed; POST if absent. */
  readonly allow?: string;
  /** The engine's own words, for the owner of the table alone: no door writes them (docs/operating/monitoring.md). */
  readonly engineError?: string;
}

const plain = Object.fromEntries(
  Object.entries(refusals).map(([code, { message }]) => [code, Object.freeze({ code, message })]),
) as { [code in RefusalCode]: Refusal };

export function refusal(code: RefusalCode, message?: string): Refusal {
  return message === undefined ? plain[code] : { code, message };
}

/**
 * What the owner of the table can do about a request that was refused with this code and for this reason; '' for a code that is not known. If
 * the reason has several parts, the clock is not the only one.
 */
export function hintOfRefusal(code: string, reason: string): string {
  if (code === 'signature_failed' && reason.includes(outsideTolerance) && !reason.includes('; and '))
    return reason.includes(aheadOfClock)
      ? 'Check the clock of this machine and that of the sender: one of them is wrong.'
      : 'Check the clock of this machine and that of the sender; the same request sent again later (a replay) is refused in this way too.';
  return Object.hasOwn(refusals, code) ? refusals[code as RefusalCode].hint : '';
}

/** The beginning of the reason for a request whose own time is not near the time of arrival. */
export const outsideTolerance = 'the clock is outside the tolerance';

/** Part of it, if that time is later than the clock. */
export const aheadOfClock = 's ahead of the clock here';

/** A refusal thrown through an await; caught where the reply is written. */
export class Refused extends Error {
  readonly refusal: Refusal;

  constructor(code: RefusalCode | Refusal, message?: string) {
    const it = typeof code === 'string' ? refusal(code, message) : code;
    // Nobody reads the stack of a refusal, and it would cost more than everything else here.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(it.message);
    Error.stackTraceLimit = stackTraceLimit;
    this.name = 'Refused';
    this.refusal = it;
  }
}

/** An error on the SQL door, with the fields PostgreSQL's own errors have. */
export interface SqlError {
  readonly sqlstate: string;
  readonly message: string;
  readonly detail?: string;
  readonly hint?: string;
  /** 1-based position in the statement text as the client sent it, in the unit of that text's string. */
  readonly position?: number;
}

/** An SqlError thrown through an await. */
export class SqlFailure extends Error {
  readonly error: SqlError;

  constructor(error: SqlError) {
    super(error.message);
    this.name = 'SqlFailure';
    this.error = error;
  }
}
