/**
 * What is kept of a refused request: which ones are worth keeping, and what of them may be shown to the owner of the
 * table. Pure. Credentials are left out by name, not recognised by their looks: a value that is not there cannot leak.
 */
import { isUtf8 } from 'node:buffer';
import type { RejectedRequest, Target } from '../tables/flow.ts';
import type { Limits } from '../tables/limits.ts';
import { refusals } from '../tables/refusals.ts';
import type { RefusalCode } from '../tables/refusals.ts';
import type { ShownRequest } from '../tables/tail.ts';

/**
 * Refusals that the sender or the owner has to do something about. A 503 is sent again by its sender; a request that
 * broke off, or leads to no table, says nothing about a table.
 */
const worthKeeping: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'invalid_option',
  'malformed_encoding',
  'malformed_payload',
  'signature_failed',
  'timestamp_skew',
  'length_required',
  'body_too_large',
  'encoding_unsupported',
  'body_not_json',
  'payload_undecodable',
  'no_column_matched',
  'delivery_id_missing',
  'key_unknown',
  'row_refused',
]);

export function isWorthKeeping(code: RefusalCode): boolean {
  return worthKeeping.has(code);
}

/** One row of headgate.rejected_requests to be. */
export interface Description extends ShownRequest {
  readonly receivedAt: Date;
  readonly relation: number;
  readonly schema: string;
  readonly table: string;
  readonly door: RejectedRequest['door'];
  readonly status: number;
  readonly code: RefusalCode;
  readonly reason: string;
  readonly authenticated: boolean;
  readonly body: Buffer | null;
  readonly bodyBytes: number | null;
}

/** `body`: what is kept of it. */
export function describe(
  request: Omit<RejectedRequest, 'body'>,
  body: Buffer | null,
  bodyBytes: number | null,
  limits: Pick<Limits, 'rejectedReasonCharsMax'>,
): Description {
  const { target, refusal } = request;
  return {
    ...shownRequest(request),
    receivedAt: new Date(request.arrivedAtMs),
    relation: target.oid,
    schema: target.schema,
    table: target.table,
    door: request.door,
    status: refusals[refusal.code].status,
    code: refusal.code,
    reason: storable(refusal.message.slice(0, limits.rejectedReasonCharsMax)),
    authenticated: request.authenticated,
    body,
    bodyBytes,
  };
}

/** What may be shown of a request beside its body. */
export function shownRequest(
  request: Pick<RejectedRequest, 'target' | 'requestTarget' | 'method' | 'rawHeaders' | 'remoteAddress'>,
): ShownRequest {
  return {
    remoteAddress: storable(request.remoteAddress),
    method: storable(request.method),
    target: storable(shownTarget(request)),
    ...shownHeaders(request.rawHeaders, request.target),
  };
}

/** Headers that carry credentials whatever anybody says. */
const credentialHeaders = new Set(['authorization', 'proxy-authorization', 'cookie', 'set-cookie']);
/** Names under which other headers carry them … */
const credentialWords =
  /auth|cookie|token|secret|passw|credential|session|hmac|jwt|signature|signed|apikey|(?:^|[-_])(?:key|sig)(?:$|[-_])/;
/** … and those that only sound like it. */
const plainKeys = /(?:idempotency|event|routing|partition|ordering)[-_]key$/;

/**
 * A header is kept under the same rule as in INCLUDE HEADERS, and more strictly: also what is only called like a
 * credential is left out. What the table stores by name (INCLUDE HEADER 'webhook-id') is kept though VALIDATE reads it.
 */
function shownHeaders(
  rawHeaders: readonly string[],
  { intake, dedupe }: Target,
): Pick<Description, 'headers' | 'leftOut' | 'masked'> {
  const included = new Set(
    intake.includes.flatMap((it) => (it.what === 'header' ? [it.header.toLowerCase()] : [])),
  );
  const isHidden = (name: string): boolean => {
    if (credentialHeaders.has(name)) return true;
    if (included.has(name) || dedupe?.headers.has(name) === true) return false;
    if (intake.hiddenHeaders === null || intake.hiddenHeaders.has(name)) return true;
    return credentialWords.test(name) && !plainKeys.test(name);
  };
  const kept = new Map<string, string>();
  const leftOut = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = storable((rawHeaders[at] ?? '').toLowerCase());
    const value = storable(headerText(rawHeaders[at + 1] ?? ''));
    const hidden = isHidden(name);
    const headers = hidden ? leftOut : kept;
    const shown = hidden ? maskedHeader(name, value) : value;
    const before = headers.get(name);
    headers.set(name, before === undefined ? shown : `${before}, ${shown}`);
  }
  return {
    headers: Object.fromEntries(kept),
    leftOut: [...leftOut.keys()],
    masked: Object.fromEntries(leftOut),
  };
}

/** How signatures and credentials begin that say of what kind they are: nothing of these words is a secret. */
const openings = /^(?:sha(?:1|256|512)=|v\d[a-z]?[=,]|t=|(?:bearer|basic|digest|jwt|signature|token|hmac) )/i;

/**
 * What is told of a value that is not kept: how it begins, where that is a word that everybody knows, and how long it is.
 * A moment is told as it is, because a clock that is wrong is a common reason to be refused.
 */
function maskedHeader(name: string, value: string): string {
  if (name.includes('time') && /^\d{1,13}$/.test(value)) return value;
  return `${openings.exec(value)?.[0] ?? ''}… (${value.length} characters)`;
}

/** node:http hands each byte over as one character. They are UTF-8 where they can be, else Latin-1. */
function headerText(value: string): string {
  if (visible.test(value)) return value;
  const bytes = Buffer.from(value, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : value;
}

/** The headers of a description as node:http would hand them over. */
export function rawHeadersOf(headers: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(headers).flatMap(([name, value]) => [
    name,
    Buffer.from(value, 'utf8').toString('latin1'),
  ]);
}

/**
 * Some senders put their key into the query: names say what was sent, values nothing. What the table stores (INCLUDE QUERY) is
 * kept.
 */
function shownTarget({
  requestTarget: target,
  target: { intake },
}: Pick<RejectedRequest, 'requestTarget' | 'target'>): string {
  if (intake.includes.some(({ what }) => what === 'query')) return target;
  const at = target.indexOf('?');
  if (at < 0) return target;
  const fields = target.slice(at + 1).split('&');
  const shown = fields.map((field) => {
    const equals = field.indexOf('=');
    // A field without a name may itself be the key.
    return equals <= 0 ? '***' : `${field.slice(0, equals)}=***`;
  });
  return `${target.slice(0, at)}?${shown.join('&')}`;
}

/** What most texts are; the rest costs more. */
const visible = /^[\x20-\x7e]*$/;

/** PostgreSQL's text holds no NUL, and its UTF-8 no half of a surrogate pair. */
export function storable(text: string): string {
  if (visible.test(text)) return text;
  return text.replaceAll('\0', '\ufffd').replaceAll(/\p{Cs}/gu, '\ufffd');
}
