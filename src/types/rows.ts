/** The rows of requests, and what became of them. Types only. */
import type { Refusal } from '../errors/refusals.ts';
import type { Target } from './target.ts';

/** JSON documents in one buffer. */
export interface Documents {
  readonly bytes: Buffer;
  /** Where each document begins and ends in `bytes`, in turn; null: all of it is one document. */
  readonly spans: Uint32Array | null;
}

/** The rows of one request, ready for the engine: all of them are committed, or none. */
export interface Rows {
  readonly target: Target;
  /** One document per row, in the form that `target.shape.writeMode` asks for. */
  readonly documents: Documents;
  readonly count: number;
  /** Their size as a lane counts it. */
  readonly bytes: number;
  /** 1 for a row that means: delete what has this key; null: no row does. */
  readonly deletes: Uint8Array | null;
  /** Rows that leave some columns of an existing row as they are, with the names; null: no row does. */
  readonly keeps: ReadonlyMap<number, readonly string[]> | null;
  /** Line of each row in its body, from 1; null: row i is line i + 1. */
  readonly lines: Uint32Array | null;
  /** How long the sender waits for the outcome, in ms from submission. */
  readonly ackTimeoutMs: number;
  readonly chain: Chain | null;
  /** null: no document had a member that is not stored. */
  readonly ignored: Ignored | null;
  /** Digest of the delivery's id, 32 hexadecimal digits; absent: it has none, or none is needed. */
  readonly delivery?: string;
  /** The same of what a copy of the delivery has to have in common with it; absent: its id is enough. */
  readonly content?: string;
  /** Of the request; absent: it is not traced. */
  readonly traceparent?: string;
}

/** Documents of which some members are not stored, because their keys are no columns. */
export interface Ignored {
  readonly documents: number;
  /** The first such keys of the table; one list for all of its rows, which may grow. */
  readonly keys: readonly string[];
}

/** Rows of one chain take effect in order: once some were not committed, none that are submitted after them are. */
export interface Chain {
  broken: boolean;
}

/** What became of a request's rows. `aborted`: certainly not stored. `unknown`: the connection was lost while committing; they may be stored. */
export type Outcome =
  /**
   * `held`: the id by which the request can be looked up; absent: it cannot. `stale`: rows that were not newer, and changed nothing. `isCopy`: its delivery was
   * stored before, and is not stored again; absent: it was not.
   */
  | {
      readonly kind: 'committed';
      readonly rows: number;
      readonly held?: string;
      readonly stale?: number;
      readonly isCopy?: true;
    }
  /** `row`: which of the rows is at fault, from 0, if known. */
  | { readonly kind: 'aborted'; readonly refusal: Refusal; readonly row?: number }
  | { readonly kind: 'unknown'; readonly refusal: Refusal };

/** A request that is on Headgate's disk, and becomes rows when the database is back. */
export interface Spooled {
  readonly kind: 'spooled';
  readonly rows: number;
  readonly held?: string;
  readonly status: 200 | 202;
  /** Its rows were with the lane before: a group that was given up may still be written to the engine, from the memory of the request. */
  readonly wasInLane: boolean;
}

/** A request whose delivery id is that of another delivery: its owner has it in headgate.rejected_requests, on the disk. */
export interface KeptApart {
  readonly kind: 'kept apart';
  readonly rows: number;
  readonly status: number;
}

/** Requests of one table that go to the engine in one transaction. */
export interface Group {
  readonly target: Target;
  readonly members: readonly Rows[];
  readonly rows: number;
  readonly bytes: number;
}

/** The commit stage: one group in, one outcome per member out, in order. Never rejects. Two implement it: `Commit` (commit/commit.ts), and `RwCommit` (risingwave/commit.ts) for events of a gateway in front of RisingWave. */
export interface GroupCommit {
  commit(group: Group): Promise<readonly Outcome[]>;
}
