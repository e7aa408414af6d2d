/**
 * What became of a request in a few words, for a line of a list: at most 40 characters. The sentence is in explained.ts. Pure. Kept on disk, handshakes and
 * repeats are no refusals.
 */
import { spanText } from '../kit/duration.ts';
import type { TailLine } from '../observe/tail.ts';
import type { Cause } from '../types/cause.ts';
import { sizeText } from './visible-text.ts';

type LineOutcome = Pick<TailLine, 'status' | 'code'>;

/** Nothing of it is stored, and it was no question. `status` 0: a batch of a WebSocket. */
export function isRefused({ status, code }: LineOutcome): boolean {
  if (code === 'committed' || code === 'spooled' || code === 'handshake') return false;
  // The id of another delivery: answered 2xx, and kept for the owner of the table to decide.
  return status === 0 || status >= 400 || code === 'delivery_differs';
}

export function kindOf(outcome: LineOutcome): 'good' | 'warn' | 'plain' | 'bad' {
  if (outcome.code === 'committed') return 'good';
  if (!isRefused(outcome)) return 'plain';
  return outcome.status >= 500 || outcome.status < 300 ? (outcome.status === 0 ? 'bad' : 'warn') : 'bad';
}

export function wordsOf({ code, rows }: Pick<TailLine, 'code' | 'rows'>): string {
  if (code === 'spooled') return 'kept on disk';
  if (code === 'handshake') return 'handshake answered';
  return code === 'committed' ? `${rows} ${rows === 1 ? 'row' : 'rows'}` : code;
}

export interface ToExplain {
  readonly status: number;
  readonly code: string;
  readonly reason: string | null;
  readonly cause: Cause | null;
  /** The name of the sender whose check the table has; null: none that is known. */
  readonly sender: string | null;
  readonly door: string;
  readonly bytes: number | null;
  /** Of the body in headgate.rejected_requests; null or absent: the request is not there, or its body was not read. */
  readonly keptBytes?: number | null;
  readonly rows: number;
  /** By the role that looks; false: it may do nothing with it. */
  readonly owned?: boolean | null;
  /** Of a request that led to no table. */
  readonly path?: string;
}

/** An age well beyond the limit is said in minutes; one that is close to it to the second. */
export function ageText(ageS: number, limitS = 0): string {
  const s = Math.abs(ageS);
  return s >= 120 && s < 7_200 && s > limitS * 1.2 ? `${Math.round(s / 60)} minutes` : spanText(s);
}

export const cut = (text: string, max: number): string =>
  text.length <= max ? text : `${text.slice(0, max - 1)}…`;

/** PostgreSQL names the column first: `column "total": invalid input syntax for type numeric: "x"`. */
export const columnOf = (reason: string | null): string | null =>
  /column "([^"]{1,80})"/.exec(reason ?? '')?.[1] ?? null;

type ReasonRow = Readonly<Record<string, string | null | undefined>>;

/** Of a row of listReasons, by its code and what `reasonOf` says of it. */
export function briefReason({ status, code, cause: key }: ReasonRow): string {
  const [kind, header] = (key ?? '').split(' ');
  const cause = { kind, ...(header === undefined ? {} : { header }) } as Cause;
  const all = { status: Number(status), code: code ?? '', reason: key ?? '', cause };
  return briefOf({ ...all, sender: null, door: 'http', bytes: null, rows: 0 });
}

/** The list of the requests that it counts. */
export const reasonFilter = (row: ReasonRow) => ({
  result: 'refused',
  schema: row['schema_name'] ?? '',
  table: row['table_name'] ?? '',
  code: row['code'] ?? '',
  cause: row['cause'] ?? '',
});

/** At the end of a refusal's words, where they say that and why a body is not JSON; PostgreSQL reads it as JavaScript does. */
export const notJson =
  '(?:it is a form: .*|it is not valid UTF-8|it is empty|(?:it ends in the middle|unexpected character|control character in a string|invalid escape in a string) at byte [0-9]+)$';
/** For all of them. */
export const notJsonKey = 'it is not JSON';

/** Where and why a body is not JSON, e.g. `unexpected character at byte 0`; null: it is, or that is not the reason. */
export const notJsonOf = (reason: string | null): string | null =>
  reason === notJsonKey ? reason : (new RegExp(notJson).exec(reason ?? '')?.[0] ?? null);

export const isNoObject = (reason: string | null): boolean =>
  (reason ?? '').endsWith('it is not a JSON object');

/** For a line of a list. */
export function briefOf(it: ToExplain): string {
  const { code, cause, rows, path } = it;
  switch (code) {
    case 'committed':
      return rows === 0 ? 'No new row' : `${rows} ${rows === 1 ? 'row' : 'rows'}`;
    case 'spooled':
      return 'Kept on disk';
    case 'handshake':
      return 'Handshake answered';
    case 'handshake_unmatched':
      return 'Handshake: no rule fits';
    case 'handshake_too_many':
      return 'Handshake: too many';
    case 'signature_failed':
      return cause === null ? 'The check refused it' : briefCause(cause);
    case 'not_found':
      // Its last part is where most slips are made, and a list cuts what is long.
      return `No endpoint at …${cut(/\/?[^/]*\/?$/.exec(path ?? '')?.[0] ?? '', 20)}`;
    default:
      return briefCode(it);
  }
}

function briefCause({ kind, ageS, limitS, header }: Cause): string {
  switch (kind) {
    case 'clock':
    case 'ahead':
      if (ageS === undefined) return 'Timestamp out of range';
      return `Timestamp ${ageText(ageS, limitS)} ${ageS < 0 ? 'ahead' : 'old'}`;
    case 'missing':
      return cut(`No ${header ?? 'signature'}`, 40);
    case 'empty':
      return cut(`Empty ${header ?? 'signature'}`, 40);
    case 'twice':
      return cut(`Twice: ${header ?? 'signature'}`, 40);
    case 'prefix':
      return 'Signature of another form';
    case 'signature':
      return 'Another secret, or changed';
    case 'key':
      return 'Another key';
    case 'token':
      return 'The token does not verify';
    case 'url':
      return 'Public address not set';
    case 'error':
      return 'The check failed';
    default:
      return 'The check refused it';
  }
}

function briefCode({ code, status, reason, bytes }: ToExplain): string {
  const known = Object.hasOwn(briefs, code) ? briefs[code] : undefined;
  if (known !== undefined) return known;
  const column = columnOf(reason);
  if (code === 'body_too_large')
    return bytes === null ? 'The body is too large' : `Body of ${sizeText(bytes)}: too large`;
  if (code === 'payload_undecodable' && notJsonOf(reason) !== null) return 'The body is not JSON';
  if (code === 'payload_undecodable' && isNoObject(reason)) return 'The body is no JSON object';
  if (code === 'payload_undecodable')
    return column === null ? 'A value does not fit' : cut(`Column ${column} does not fit`, 40);
  if (code === 'row_refused')
    return column === null ? 'The table refused the row' : cut(`Column ${column} refused it`, 40);
  if (status >= 500) return 'Told to come again';
  const words = code.replaceAll('_', ' ');
  return cut(words.charAt(0).toUpperCase() + words.slice(1), 40);
}

/** By code; those of a 5xx are all told to come again. */
const briefs: Readonly<Record<string, string>> = {
  body_not_json: 'The body is no valid JSON',
  body_not_form: 'The body is no form',
  no_column_matched: 'No key is a column',
  key_unknown: 'A key is no column',
  delivery_id_missing: 'It has no delivery id',
  delivery_differs: 'Id of another delivery',
  version_missing: 'No comparable version',
  invalid_option: 'Unknown decoder option',
  malformed_encoding: 'Compressed body is broken',
  malformed_payload: 'No batch of rows',
  timestamp_skew: 'Time of sending is wrong',
  length_required: 'No length of the body',
  encoding_unsupported: 'Unknown Content-Encoding',
  malformed_path: 'No address of an endpoint',
  method_not_allowed: 'Not a POST',
  malformed_request: 'No valid HTTP',
  request_aborted: 'It broke off',
  request_timeout: 'It took too long',
  headers_too_large: 'Headers are too large',
  path_too_long: 'The address is too long',
  expectation_failed: 'Unknown Expect header',
  address_refused: 'Address not allowed',
  rate_limited: 'Too many requests',
  sender_overloaded: 'Too many bytes at once',
  origin_refused: 'Web page not allowed',
  upgrade_required: 'Not a WebSocket',
  websocket_unsupported: 'No WebSockets here',
  table_gone: 'Its table is gone',
  internal: 'A bug in Headgate',
};
