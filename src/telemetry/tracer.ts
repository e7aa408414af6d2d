/**
 * Decides which requests are traced, and makes their spans and those of the groups that store them. Takes requests, and batches of WebSockets, as they arrive and
 * are answered, and groups; gives the text of ended spans to whoever sends them. Refuses nothing. A request that is not traced costs one random number.
 *
 * What a sender writes about its trace is believed only if it comes from a trusted network: otherwise anybody could have every request of
 * theirs traced. A stranger's trace is noted as a link.
 */
import { randomBytes } from 'node:crypto';
import type { Networks } from '../kit/networks.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { limits } from '../config/limits.ts';
import type { TableName } from '../observe/observations.ts';
import type { RequestSpan } from '../types/request.ts';
import type { Group, Outcome } from '../types/rows.ts';
import { attributesText, spanText } from './span-text.ts';
import type { EndedSpan, SpanLink } from './span-text.ts';

/** Which requests are traced. */
export interface Sampler {
  /** A trusted sender has decided it already. */
  readonly isParentBased: boolean;
  /** Of the others, from 0 to 1. */
  readonly ratio: number;
}

interface TracerOptions {
  readonly sampler: Sampler;
  /** null: no sender is believed. */
  readonly trusted: Pick<Networks, 'has'> | null;
  /** Takes the text of an ended span. */
  readonly ended: (span: string) => void;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** ms since 1970 */
  readonly now: () => number;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
}

/** What is asked of a request that arrives. */
export interface Arriving {
  readonly method: string;
  readonly remoteAddress: string;
  /** A header, by its name in lower case. */
  one(name: string): string | undefined;
}

export interface Answered {
  readonly table: Pick<TableName, 'database'> | TableName | null;
  /** Of the request's path, low in number; null: it led nowhere. */
  readonly route: string | null;
  readonly scheme: 'http' | 'https' | 'ws' | 'wss';
  /** 101: a WebSocket's first message was taken, or refused. */
  readonly status: number;
  /** Of the answer; `error.type` if that is no success. */
  readonly code: string;
  /** Answered with a success. Default: by the status. */
  readonly isDone?: boolean;
}

interface BatchAnswered extends Pick<Answered, 'table' | 'scheme' | 'code'> {
  readonly route: string;
  readonly rows: number;
  readonly isDone: boolean;
  /** Nobody but Headgate can mend it. */
  readonly isError: boolean;
}

/** A request that is being traced. */
export class TracedRequest implements RequestSpan {
  readonly traceparent: string;
  readonly parent: SpanContext | null;
  /** Of a stranger. */
  readonly link: SpanContext | null;
  readonly startedMs: number;
  verifiedMs = 0;
  queuedMs = 0;
  committedMs = 0;
  spooledMs = 0;

  constructor(traceId: string, parent: SpanContext | null, link: SpanContext | null, startedMs: number) {
    this.traceparent = traceparentOf(traceId, newId(8));
    this.parent = parent;
    this.link = link;
    this.startedMs = startedMs;
  }

  get traceId(): string {
    return idsOf(this.traceparent).traceId;
  }
}

/** Low in number, whatever a sender writes. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH']);
/** Where the clocks may part, ms. */
const driftMaxMs = 10;

const tableText = rememberedOf((of: Pick<TableName, 'database'> | TableName): string =>
  attributesText(
    'table' in of
      ? { 'db.namespace': `${of.database}|${of.schema}`, 'db.collection.name': of.table }
      : { 'db.namespace': of.database },
  ),
);

export class Tracer {
  readonly #options: TracerOptions;
  /** ms since 1970 less the monotonic clock. */
  #offsetMs: number;

  constructor(options: TracerOptions) {
    this.#options = options;
    this.#offsetMs = options.now() - options.clock();
  }

  /** null: the request is not traced. */
  begin(request: Arriving): TracedRequest | null {
    const { sampler, trusted, random } = this.#options;
    const { remoteAddress } = request;
    if (trusted !== null && remoteAddress !== '' && trusted.has(remoteAddress)) {
      const parent = parseTraceparent(request.one('traceparent'));
      if (parent !== null) {
        const isSampled = sampler.isParentBased ? parent.isSampled : isWithin(parent.traceId, sampler.ratio);
        return isSampled ? this.#begin(parent.traceId, parent, null) : null;
      }
    }
    if (random() >= sampler.ratio) return null;
    return this.#begin(newId(16), null, parseTraceparent(request.one('traceparent')));
  }

  #begin(traceId: string, parent: SpanContext | null, link: SpanContext | null): TracedRequest {
    const { clock, now } = this.#options;
    const startedMs = clock();
    // The system's clock may have been set.
    if (Math.abs(now() - startedMs - this.#offsetMs) > driftMaxMs) this.#offsetMs = now() - startedMs;
    return new TracedRequest(traceId, parent, link, startedMs);
  }

  end(request: TracedRequest, { method, remoteAddress }: Arriving, answered: Answered): void {
    const { route, scheme, table, status, code } = answered;
    const { isDone = status >= 200 && status <= 299 } = answered;
    const known = methods.has(method) ? method : '_OTHER';
    this.#end(request, `${known === '_OTHER' ? 'HTTP' : known}${route === null ? '' : ` ${route}`}`, table, {
      isError: status >= 500,
      attributes: {
        'http.request.method': known,
        ...(route !== null && { 'http.route': route }),
        'http.response.status_code': status,
        'url.scheme': scheme,
        ...(remoteAddress !== '' && { 'client.address': remoteAddress }),
        ...(!isDone && { 'error.type': code }),
      },
    });
  }

  /** Of a WebSocket, whose client is `remoteAddress`. */
  endBatch(
    request: TracedRequest,
    { remoteAddress }: Pick<Arriving, 'remoteAddress'>,
    { table, route, scheme, code, rows, isDone, isError }: BatchAnswered,
  ): void {
    this.#end(request, `batch ${route}`, table, {
      isError,
      attributes: {
        'http.route': route,
        'network.protocol.name': 'websocket',
        'url.scheme': scheme,
        ...(remoteAddress !== '' && { 'client.address': remoteAddress }),
        ...(isDone ? { 'headgate.batch.rows': rows } : { 'error.type': code }),
      },
    });
  }

  #end(
    request: TracedRequest,
    name: string,
    table: Answered['table'],
    more: Pick<EndedSpan, 'attributes' | 'isError'>,
  ): void {
    const { ended, clock } = this.#options;
    const { traceparent, parent, link, startedMs } = request;
    const events = [
      { name: 'verified', atMs: request.verifiedMs },
      { name: 'queued', atMs: request.queuedMs },
      { name: 'committed', atMs: request.committedMs },
      { name: 'spooled', atMs: request.spooledMs },
    ];
    ended(
      spanText({
        ...idsOf(traceparent),
        parentSpanId: parent?.spanId ?? '',
        hasRemoteParent: parent !== null,
        name,
        kind: 'server',
        startMs: startedMs + this.#offsetMs,
        endMs: clock() + this.#offsetMs,
        shared: table === null ? '' : tableText(table),
        events: events
          .filter(({ atMs }) => atMs > 0)
          .map(({ name: at, atMs }) => ({ name: at, atMs: atMs + this.#offsetMs })),
        links: link === null ? [] : [{ ...link, isRemote: true }],
        ...more,
      }),
    );
  }

  /** Returns `outcomes`; if a request of the group is traced, the group's COMMIT is a span of the first one's trace, linked to each. */
  commit(
    { target, members, rows }: Group,
    outcomes: Promise<readonly Outcome[]>,
  ): Promise<readonly Outcome[]> {
    const links: SpanLink[] = [];
    for (const { traceparent } of members)
      if (traceparent !== undefined && links.length < limits.spanLinksMax)
        links.push({ ...idsOf(traceparent), isSampled: true, isRemote: false });
    const [first] = links;
    if (first === undefined) return outcomes;
    const { ended, clock } = this.#options;
    const startedMs = clock();
    return outcomes.then((all) => {
      const failed = all.every(({ kind }) => kind !== 'committed') ? all[0] : undefined;
      ended(
        spanText({
          traceId: first.traceId,
          spanId: newId(8),
          parentSpanId: first.spanId,
          hasRemoteParent: false,
          name: 'COMMIT',
          kind: 'internal',
          startMs: startedMs + this.#offsetMs,
          endMs: clock() + this.#offsetMs,
          shared: tableText(target),
          attributes: {
            'headgate.group.requests': members.length,
            'headgate.group.rows': rows,
            ...(failed !== undefined && failed.kind !== 'committed' && { 'error.type': failed.refusal.code }),
          },
          events: [],
          links,
          isError: failed !== undefined,
        }),
      );
      return all;
    });
  }
}

/** The sampling of a trace by its id, so that all who take part choose the same ones: by the bits that are random in every version. */
function isWithin(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(-13), 16) / 2 ** 52 < ratio;
}

/** Hexadecimal digits: to ask for so many at a time costs a fiftieth of asking for each id. */
let digits = '';
let taken = 0;

function newId(bytes: number): string {
  if (taken + 2 * bytes > digits.length) {
    digits = randomBytes(limits.spanIdBytes).toString('hex');
    taken = 0;
  }
  const id = digits.slice(taken, (taken += 2 * bytes));
  return /^0*$/.test(id) ? newId(bytes) : id;
}

interface SpanContext {
  /** 32 and 16 hexadecimal digits, in lower case, not all zero. */
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** The header `traceparent` of W3C Trace Context (https://www.w3.org/TR/trace-context/#traceparent-header). */
const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** `value`: the header as received, several joined by commas; null: it says nothing that may be used. */
export function parseTraceparent(value: string | undefined): SpanContext | null {
  if (value === undefined) return null;
  const [, version, traceId = '', spanId = '', flags = '', more] = form.exec(value) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** Of a traced request. */
export const traceparentOf = (traceId: string, spanId: string): string => `00-${traceId}-${spanId}-01`;

/** What it was made of. */
export const idsOf = (traceparent: string): Pick<SpanContext, 'traceId' | 'spanId'> => ({
  traceId: traceparent.slice(3, 35),
  spanId: traceparent.slice(36, 52),
});
