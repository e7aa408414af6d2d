/**
 * What is kept of a refused request, and may be shown to the owner of the table. Pure. Credentials are left out by name, not recognised by their form: a value that is not there cannot leak.
 */
import { isUtf8 } from 'node:buffer';
import type { RejectedRequest } from '../types/journal.ts';
import type { Cause } from '../types/cause.ts';
import type { Target } from '../types/target.ts';
import type { Limits } from '../config/limits.ts';
import { refusals } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import type { ShownRequest } from '../observe/tail.ts';

/** A future row of headgate.rejected_requests. */
export interface Description extends ShownRequest {
  readonly receivedAt: Date;
  readonly relation: number;
  readonly schema: string;
  readonly table: string;
  readonly door: RejectedRequest['door'];
  readonly status: number;
  readonly code: RefusalCode;
  readonly reason: string;
  /** The same for programs; absent: only the code is known. */
  readonly cause?: Cause;
  /** Whose check the table had; null: no known sender's. */
  readonly sender: string | null;
  /** The name of its event, as the table's sender writes it; null: not known. */
  readonly event: string | null;
  /** What the engine itself said; null: it was not asked, or has not refused the row. */
  readonly engineError: string | null;
  /** What continues its trace; null: it was not traced. */
  readonly traceparent: string | null;
  readonly authenticated: boolean;
  readonly body: Buffer | null;
  readonly bodyBytes: number | null;
}

/** `body`: the part of it that is kept. */
export function describe(
  request: Omit<RejectedRequest, 'body'>,
  body: Buffer | null,
  bodyBytes: number | null,
  limits: Pick<Limits, 'rejectedReasonCharsMax'>,
  status: number = refusals[request.refusal.code].status,
): Description {
  const { target, refusal } = request;
  return {
    ...shownRequest(request),
    receivedAt: new Date(request.arrivedAtMs),
    relation: target.oid,
    schema: target.schema,
    table: target.table,
    door: request.door,
    status,
    code: refusal.code,
    reason: storable(refusal.message.slice(0, limits.rejectedReasonCharsMax)),
    sender: target.sender?.id ?? null,
    event: null,
    engineError: refusal.engineError === undefined ? null : storable(refusal.engineError),
    traceparent: request.traceparent ?? null,
    authenticated: request.authenticated,
    body,
    bodyBytes,
  };
}

/** What may be shown of a request besides its body. */
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

/** Headers that carry credentials in any case. */
const credentialHeaders = new Set(['authorization', 'proxy-authorization', 'cookie', 'set-cookie']);
/** Names under which other headers carry them … */
const credentialWords =
  /auth|cookie|token|secret|passw|credential|session|hmac|jwt|signature|signed|apikey|(?:^|[-_])(?:key|sig)(?:$|[-_])/;
/** … and names that only look like it. */
const plainKeys = /(?:idempotency|event|routing|partition|ordering)[-_]key$/;

/**
 * Headers are kept by the rule of INCLUDE HEADERS, and more strictly: a header whose name only suggests a
 * credential is left out, too. A header that the table stores by name (INCLUDE HEADER 'webhook-id') is kept although VALIDATE reads it.
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

/** Prefixes by which signatures and credentials tell their kind, and the time that some begin with: none of it is secret. */
const openings =
  /^(?:sha(?:1|256|512)=|v\d[a-z]?[=,]|t=(?:\d{1,13},)?|(?:bearer|basic|digest|jwt|signature|token|hmac) )/i;

/**
 * What is told of a value that is not kept: its prefix, if that is well known, and its length.
 * A time is told unchanged, because a wrong clock is a common reason for a refusal.
 */
function maskedHeader(name: string, value: string): string {
  if (name.includes('time') && /^\d{1,13}$/.test(value)) return value;
  return `${openings.exec(value)?.[0] ?? ''}… (${value.length} characters)`;
}

/** node:http passes each byte as one character. The bytes are read as UTF-8 if they are valid, else as Latin-1. */
function headerText(value: string): string {
  if (visible.test(value)) return value;
  const bytes = Buffer.from(value, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : value;
}

/** The headers of a description in the form in which node:http passes them. */
export function rawHeadersOf(headers: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(headers).flatMap(([name, value]) => [
    name,
    Buffer.from(value, 'utf8').toString('latin1'),
  ]);
}

/**
 * Some senders put their key into the query, so names are shown, and values are not. If the table stores the query (INCLUDE QUERY, or of a
 * GET), all of it is kept.
 */
function shownTarget({
  requestTarget: target,
  method,
  target: { intake, methods },
}: Pick<RejectedRequest, 'requestTarget' | 'method' | 'target'>): string {
  if (intake.includes.some(({ what }) => what === 'query')) return target;
  if (method === 'GET' && methods?.has(method) === true) return target;
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

/** Matches most texts; the others cost more. */
const visible = /^[\x20-\x7e]*$/;

/** PostgreSQL's text cannot hold NUL, and its UTF-8 no half of a surrogate pair. */
export function storable(text: string): string {
  if (visible.test(text)) return text;
  return text.replaceAll('\0', '\ufffd').replaceAll(/\p{Cs}/gu, '\ufffd');
}
