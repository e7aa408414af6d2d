/** What the stages of a request pass to each other: the request as it arrives, and what VALIDATE and decode read of it. Types only. */
import type { TableName } from '../observe/observations.ts';
import type { Cause } from './cause.ts';

/** A request up to its headers, with the function that reads its body. */
export interface Arrival {
  readonly method: string;
  /** The request target as received: path and query, undecoded. */
  readonly target: string;
  /** Header names and values in turn, as received. */
  readonly rawHeaders: readonly string[];
  readonly header?: HeaderReader | undefined;
  /** Time of arrival, ms since 1970. */
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  /** What continues its trace; absent: it is not traced. */
  readonly traceparent?: string | undefined;
  /** Is told how far the request has come; absent: nobody wants to know. */
  readonly span?: RequestSpan | null;
  /** Is told which table it is for, as soon as that is known; absent: nobody wants to know. */
  found?(table: TableName): void;
  /** The announced length of the body; 0 or absent: unknown. */
  readonly announcedBytes?: number;
  /** What the body was before it was decompressed, if `body(true)` was called; absent: the same. */
  readonly encodedBody?: Buffer | undefined;
  /** Reads the body, and keeps what it was before it was decompressed, if that is wanted; throws `Refused` (408, 411, 413, 415 …), or rejects with it. Called at most once. */
  body(keepsEncoded?: boolean): Buffer | Promise<Buffer>;
}

/** The value of a header, by its name in lower case, without reading the others. null: absent; undefined: received more than once. */
export type HeaderReader = (name: string) => string | null | undefined;

/** What a VALIDATE expression may read. */
export interface CheckRequest {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly header?: HeaderReader | undefined;
  readonly arrivedAtMs: number;
  readonly body: Buffer;
  /** As it was sent, before it was decompressed; absent: the same. */
  readonly encodedBody?: Buffer | undefined;
}

/** A compiled VALIDATE expression: true accepts; false, NULL and every error refuse. Never throws. Its closure is in `checkOf` of validate/program.ts. */
export type RequestCheck = (request: CheckRequest) => boolean;

/** The first thing that was not true, in one line for the owner, without secrets and data of the sender. Costs far more than the check. */
export type WhyRefused = (request: CheckRequest) => WhyNot;

export interface WhyNot {
  readonly reason: string;
  readonly cause: Cause;
}

/** What decode reads of a request besides its body. */
export type DecodeHead = Omit<Arrival, 'announcedBytes' | 'body' | 'encodedBody' | 'found' | 'span'>;

export interface DecodeRequest extends DecodeHead {
  readonly body: Buffer;
  /** An earlier answer says that it is kept: it is read as it was then, if it would be refused now. */
  readonly accepted?: boolean;
}

/** What a traced request is told of its way, by the stages that it passes. */
export interface RequestSpan {
  /** `00-<trace>-<span>-01`: what continues the trace behind Headgate. */
  readonly traceparent: string;
  /** When it passed the check, and went to its lane, by a monotonic clock in ms; 0: not yet. */
  verifiedMs: number;
  queuedMs: number;
  /** When it was certain that its rows are stored, or that the request is on the disk. */
  committedMs: number;
  spooledMs: number;
}
