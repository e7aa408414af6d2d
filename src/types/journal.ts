/** Requests that are kept for the owner of a table. Types only. */
import type { Refusal } from '../errors/refusals.ts';
import type { Outcome } from './rows.ts';
import type { Target } from './target.ts';

/** A sender's handshake and its result, for the owner of the table. */
export interface AskedHandshake {
  readonly target: Target;
  readonly method: string;
  readonly remoteAddress: string;
  /** ms since 1970 */
  readonly askedAtMs: number;
  /** The place of the rule that matched, from 1; null: none did. */
  readonly place: number | null;
  readonly status: number;
  readonly outcome: 'answered' | 'unmatched' | 'too_many';
}

/** A refused request, to be kept for the owner of the table. */
export interface RejectedRequest {
  readonly target: Target;
  readonly refusal: Refusal;
  /** `spool`: it was accepted, and the database refused it at the hand-over. */
  readonly door: 'http' | 'websocket' | 'spool';
  /** VALIDATE has accepted it, or the table has none. */
  readonly authenticated: boolean;
  readonly method: string;
  /** Path and query as received. */
  readonly requestTarget: string;
  readonly rawHeaders: readonly string[];
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  /** What continues its trace; absent: it was not traced. */
  readonly traceparent?: string | undefined;
  /** null: not read. */
  readonly body: Buffer | null;
}

/** A refused request that was written down. */
export interface StoredRefusal {
  /** Of its row of headgate.rejected_requests. */
  readonly id: string;
  readonly database: string;
  /** pg_class.oid of its table. */
  readonly oid: number;
  readonly code: string;
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
}

/** A refused request that was kept, and for which the owner asks for another attempt. */
export interface KeptRequest {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  /** pg_class.oid of the table that refused it. */
  readonly oid: number;
  readonly method: string;
  /** Path and query; the query's values are `***` if no column took them. */
  readonly requestTarget: string;
  /** As node:http gives them, without those of `leftOut`. */
  readonly rawHeaders: readonly string[];
  /** Lower-case names of the headers that were not kept. */
  readonly leftOut: ReadonlySet<string>;
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  readonly traceparent?: string | undefined;
  readonly body: Buffer;
  /** It was kept because its delivery's id is that of another delivery, and is to be stored nevertheless. */
  readonly apart: boolean;
  /** It comes from the sender's log, which may show it in another form than a webhook has: a delivery with its id is a copy. */
  readonly fetched?: true;
}

/** `Retry.store` of ingest/retry.ts, a later room than those that call it: runs a kept request through the stages again, without its check. Never rejects with Refused. */
export type RetryRejected = (request: KeptRequest) => Promise<Outcome>;
