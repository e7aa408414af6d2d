/**
 * The log that a sender keeps of its deliveries, as its API shows it: for the option `reconcile`. Says which calls are made and what their answers
 * mean; whoever makes them decides when, and gives the token. Only what is known of an answer is believed: the next page is a cursor, never a URL. Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';

/** One call. `path` begins with a slash and goes behind the API's URL. */
export interface LogCall {
  readonly method: 'GET' | 'POST';
  readonly path: string;
}

/** A delivery of which the log says that it was sent. */
export interface LoggedDelivery {
  /** The value that `dedupe` of the table takes for the delivery's id. */
  readonly id: string;
  /** By which the API knows it. */
  readonly logId: string;
  /** By the sender's clock, ms since 1970. */
  readonly atMs: number;
  /** What was sent, byte by byte as the API shows it; absent: the sender has to be asked to send it again. */
  readonly body?: Buffer;
}

export interface LogPage {
  /** Newest first. */
  readonly deliveries: readonly LoggedDelivery[];
  /** null: there is no further page. */
  readonly cursor: string | null;
}

/** The answer is not what the API documents. The message names no value of it. */
export class LogUnreadable extends Error {}

/** A log that the option names, e.g. `github:octocat/hello/hooks/1`. */
export interface DeliveryLog {
  readonly sender: string;
  /** In one form. */
  readonly text: string;
  /** The headers of every call. */
  readonly headers: (token: string) => Readonly<Record<string, string>>;
  /** A call before the first page, if what the sender delivers is set there. */
  readonly filter: { readonly call: LogCall; readonly read: (body: Buffer) => LogFilter } | null;
  /** `fromMs`: how far back it is read, which the API need not know. */
  readonly page: (cursor: string | null, fromMs: number) => LogCall;
  readonly read: (body: Buffer, headers: IncomingHttpHeaders, filter: LogFilter | null) => LogPage;
  /** Makes the sender deliver again, or returns what was delivered. */
  readonly again: (logId: string) => LogCall;
  /** Of the answer to `again`: the body to be stored; null: the sender delivers it. */
  readonly fetched: ((body: Buffer) => LoggedDelivery) | null;
}

/** Which entries of the log are deliveries to this table. */
export type LogFilter = (type: string) => boolean;

/** What is known of all logs of one sender. */
export interface LogKind {
  readonly sender: string;
  readonly name: string;
  /** Its public API. */
  readonly api: string;
  /** The option `dedupe` that its ids belong to. */
  readonly dedupe: string;
  /** For how long the API shows a delivery, in s. */
  readonly keptS: number;
  /** The pause between two calls that read, and two that make it deliver, in ms. */
  readonly readPauseMs: number;
  readonly againPauseMs: number;
  /** `of`: what follows the sender's name and a colon; empty: nothing does. null: it is no log. */
  readonly parse: (of: string) => DeliveryLog | null;
  /** The forms of the option. */
  readonly forms: readonly string[];
}

export function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch {
    throw new LogUnreadable('the answer is not JSON');
  }
}

/** A text that fits the catalog, and a URL once it is escaped; throws LogUnreadable. */
export function plainText(value: unknown, what: string): string {
  const text = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value;
  if (typeof text === 'string' && /^[\x21-\x7e]{1,200}$/.test(text)) return text;
  throw new LogUnreadable(`${what} is not a plain text`);
}

/** Throws LogUnreadable. */
export function momentOf(value: number, what: string): number {
  // PostgreSQL has later times, but no log has.
  if (Number.isFinite(value) && value >= 0 && value < 4_102_444_800_000) return value;
  throw new LogUnreadable(`${what} is no time`);
}
