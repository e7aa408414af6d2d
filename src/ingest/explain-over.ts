/**
 * What another VALIDATE would say of requests that are kept: those that a table has stored, and those that it has refused. Takes the check, compiled as for
 * the table, and kept requests; returns how many verdicts change, and which. Each is judged at its own time of arrival. What was not kept is not guessed: if
 * the verdict depends on it, it is `not known`. Pure.
 */
import type { Candidate } from '../catalog/altered-check.ts';
import { limits } from '../config/limits.ts';
import type { CheckRequest } from '../types/request.ts';
import type { Explainer, PartsNotKept, RequestPart, Verdict } from '../validate/explain.ts';
import { maskedQuery } from './retry.ts';

/** A row of the cursor `headgate stored`; see headgate.open_kept(). */
export interface StoredRow {
  readonly id: string;
  /** ms since 1970 */
  readonly at: number;
  readonly method: string | null;
  readonly path: string | null;
  readonly query: string | null;
  readonly headers: Readonly<Record<string, unknown>> | null;
  readonly named: Readonly<Record<string, string | null>>;
  readonly body: string | null;
}

/** A row of the cursor `headgate refused`. */
export interface RefusedRow {
  readonly id: string;
  readonly at: number;
  readonly authenticated: boolean;
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly leftOut: readonly string[];
  readonly cause: { readonly kind: string; readonly header?: string } | null;
  readonly bodyBytes: number | null;
  readonly body: string | null;
}

/** What the columns of the table keep of a request. */
export interface TableKeeps {
  /** What INCLUDE says, except single headers. */
  readonly keeps: readonly string[];
  readonly batched: boolean;
}

/** A line of the answer: `requests` of them, null: an unknown number; `request`, `receivedAt`: the one that it is about. */
export interface OverLine {
  readonly requests: number | null;
  readonly request: string | null;
  readonly receivedAt: string | null;
  readonly before: 'accepted' | 'refused' | null;
  readonly after: 'accepted' | 'refused' | 'not known' | 'not looked at' | null;
  readonly reason: string;
}

interface Judged {
  readonly request: CheckRequest;
  readonly notKept: PartsNotKept;
}

/** What an expression reads of the request's headers. */
interface Reads {
  readonly headersRead: readonly string[];
  readonly readsAllHeaders: boolean;
}

export class Comparison {
  readonly #candidate: Pick<Candidate, 'check' | 'readNow'>;
  readonly #explainer: Explainer;
  readonly #reads: Reads;
  readonly #kept: TableKeeps;
  readonly #counts = new Map<string, { readonly line: OverLine; requests: number | null }>();
  readonly #changed: OverLine[] = [];
  #changes = 0;

  constructor(
    candidate: Pick<Candidate, 'check' | 'readNow'>,
    explainer: Explainer,
    reads: Reads,
    kept: TableKeeps,
  ) {
    this.#candidate = candidate;
    this.#explainer = explainer;
    this.#reads = reads;
    this.#kept = kept;
  }

  stored(row: StoredRow): void {
    const isSocket = row.headers !== null && Object.hasOwn(row.headers, 'sec-websocket-key');
    if (isSocket) this.#count('stored', 'accepted', 'not looked at', 'it came over a WebSocket');
    else this.#judge('stored', 'accepted', row, this.#storedAs(row));
  }

  refused(row: RefusedRow): void {
    const before = row.authenticated ? 'accepted' : 'refused';
    if (row.body === null) this.#count('refused', null, 'not looked at', 'its body was not read');
    else this.#judge('refused', before, row, refusedAs(row, row.body));
  }

  /** Nobody knows how many: they are not counted. */
  skip(reason: string): void {
    this.#counts.set(reason, { line: summary(null, 'not looked at', reason), requests: null });
  }

  /** How many, and then which, newest first. */
  lines(): readonly OverLine[] {
    const sums = [...this.#counts.values()].map(({ line, requests }) => ({ ...line, requests }));
    const newest = this.#changed.toSorted((a, b) => ((a.receivedAt ?? '') < (b.receivedAt ?? '') ? 1 : -1));
    const shown = newest.slice(0, limits.explainOverLinesMax);
    const left = this.#changes - shown.length;
    const more =
      left === 0 ? [] : [{ ...summary(null, null, 'further changes, which are not listed'), requests: left }];
    return [...sums, ...shown, ...more];
  }

  #judge(
    where: 'stored' | 'refused',
    before: 'accepted' | 'refused',
    { id, at }: { readonly id: string; readonly at: number },
    { request, notKept }: Judged,
  ): void {
    const verdict = this.#verdict(request, notKept);
    if (verdict === 'unknown') {
      this.#count(where, before, 'not known', this.#explainer.unknownBecause(notKept));
      return;
    }
    this.#count(where, before, verdict, verdict === before ? 'the same' : 'changes');
    if (verdict === before) return;
    this.#changes += 1;
    // Each kind comes newest first.
    if (this.#changed.length >= 2 * limits.explainOverLinesMax) return;
    const { reason } = this.#explainer.explainStranger(request, notKept);
    this.#changed.push({
      requests: 1,
      request: id.slice(0, limits.explainTextCharsMax),
      receivedAt: new Date(at).toISOString(),
      before,
      after: verdict,
      reason,
    });
  }

  #verdict(request: CheckRequest, notKept: PartsNotKept): Verdict {
    const verdict = this.#explainer.verdict(request, notKept);
    // The table's own check: it may ask for more than its expression (the topics of SNS).
    return verdict === 'accepted' && !this.#candidate.check(request) ? 'refused' : verdict;
  }

  #count(
    where: 'stored' | 'refused',
    before: OverLine['before'],
    after: OverLine['after'],
    why: string,
  ): void {
    const key = `${where} ${before} ${after} ${why}`;
    const counted = this.#counts.get(key);
    if (counted === undefined)
      this.#counts.set(key, { line: summary(before, after, `${where}: ${why}`), requests: 1 });
    else counted.requests = (counted.requests ?? 0) + 1;
  }

  /** What a row does not show is not known: it may be older than the column, and INCLUDE HEADERS leaves out what VALIDATE reads. */
  #storedAs({ at, method, path, query, headers: all, named, body }: StoredRow): Judged {
    const headers = new Map<string, string>();
    for (const [name, value] of [...Object.entries(all ?? {}), ...Object.entries(named)])
      if (typeof value === 'string') headers.set(name.toLowerCase(), value);
    const { headersRead, readsAllHeaders } = this.#reads;
    const unknown = headersRead.filter((name) => {
      const value = headers.get(name);
      // A request whose header came twice was refused by a check that reads it.
      return (
        value === undefined || !isExact(value) || (isJoined(value) && !this.#candidate.readNow.has(name))
      );
    });
    if (readsAllHeaders) unknown.push('authorization');
    const { keeps, batched } = this.#kept;
    const parts: RequestPart[] = [];
    if (method === null) parts.push('method');
    if (path === null || !isExact(path)) parts.push('path');
    if (!keeps.includes('query') || !isExact(query ?? '')) parts.push('query');
    if (body === null || batched) parts.push('body');
    if (all === null || isCompressed(headers)) parts.push('encoded_body');
    const target = `${path ?? '/'}${query === null ? '' : `?${query}`}`;
    return {
      request: requestOf({
        method: method ?? 'POST',
        target,
        at,
        body: body ?? '',
        rawHeaders: [...headers].flat(),
      }),
      notKept: { headers: unknown, parts },
    };
  }
}

function refusedAs(row: RefusedRow, body: string): Judged {
  const headers = new Map(Object.entries(row.headers));
  const twice = row.cause?.kind === 'twice' ? row.cause.header : undefined;
  if (twice !== undefined && !headers.has(twice)) headers.set(twice, '');
  const rawHeaders = [...headers].flatMap(([name, value]) =>
    name === twice ? [name, value, name, value] : [name, value],
  );
  const joined = [...headers].filter(
    ([name, value]) => name !== twice && (isJoined(value) || !isExact(value)),
  );
  const parts: RequestPart[] = [];
  if (!isExact(row.target)) parts.push('path', 'query');
  else if (maskedQuery.test(row.target)) parts.push('query');
  const request = requestOf({ method: row.method, target: row.target, at: row.at, body, rawHeaders });
  if (request.body.length !== row.bodyBytes) parts.push('body');
  if (isCompressed(headers)) parts.push('encoded_body');
  return {
    request,
    notKept: {
      headers: [...row.leftOut.filter((name) => name !== twice), ...joined.map(([name]) => name)],
      parts,
    },
  };
}

interface Described {
  readonly method: string;
  readonly target: string;
  readonly at: number;
  readonly body: string;
  readonly rawHeaders: readonly string[];
}

function requestOf({ at, body, ...others }: Described): CheckRequest {
  return { ...others, arrivedAtMs: at, body: Buffer.from(body, 'base64') };
}

/** A header that came twice is kept as one value. */
const isJoined = (value: string): boolean => value.includes(', ');

/** Whether the bytes are known: others may have been UTF-8 or Latin-1. */
// oxlint-disable-next-line no-control-regex
const isExact = (value: string): boolean => /^[\t\x20-\x7e]*$/.test(value);

function isCompressed(headers: ReadonlyMap<string, string>): boolean {
  return headers.has('content-encoding');
}

function summary(before: OverLine['before'], after: OverLine['after'], reason: string): OverLine {
  return { requests: 0, request: null, receivedAt: null, before, after, reason };
}
