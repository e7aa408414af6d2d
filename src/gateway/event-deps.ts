/**
 * What POST /v1/events needs of other rooms, and what its parts hand each other. Types, joined in main.ts and
 * gateway-main.ts.
 */
import type { PoolClient } from 'pg';
import type { Column, Documents, Outcome, Rows, Target } from '../tables/flow.ts';
import type { Semaphore } from '../kit/semaphore.ts';
import type { Refusal } from '../tables/refusals.ts';
import type { EventBody } from './event-body.ts';
import type { Skipped } from './skipped.ts';

export const conflicts = ['error', 'update', 'ignore'] as const;
export type OnConflict = (typeof conflicts)[number];

/** How rows get into the tables of a database: one for each kind of server (app/gateway-events.ts, app/other-rooms.ts). */
export interface EventDeps {
  /** The table that a name means now, as SQL would; throws `relation_not_found`, `relation_not_writable`, `key_missing`. */
  readonly find: (database: string, name: string, onConflict: OnConflict | null) => Target | Promise<Target>;
  /** The engine says that the table is not what it was. */
  readonly forget: (database: string, name: string) => void;
  /** Throws `lane_full`, `draining`, before the body is read. */
  readonly admit: (target: Target) => void;
  readonly submit: (rows: Rows) => Promise<Outcome>;
  /** Lets go of a database, so that it can be dropped or renamed. */
  readonly release: (database: string) => Promise<void>;
  readonly codec: EventCodec;
  /** What is too large for a lane; throws Refused or LineRefused. */
  readonly large: (target: Target, request: EventRequest, body: EventBody) => Promise<EventAnswer>;
  /** A body of which the engine has refused rows that are to be left out. */
  readonly skipping: (
    target: Target,
    request: EventRequest,
    body: EventBody,
    small: Buffer,
  ) => Promise<EventAnswer>;
  /** Resolves when everything that was answered before can be read; throws Refused. */
  readonly readable: (database: string) => Promise<void>;
}

/** What a large body goes through on PostgreSQL. */
export interface EventStreamDeps extends Pick<EventDeps, 'forget'> {
  /** One for each large body that is under way. */
  readonly streams: Semaphore;
  readonly transaction: TransactionDeps;
}

export interface EventRequest {
  readonly database: string;
  readonly name: string;
  /** null: nothing was said. */
  readonly onConflict: OnConflict | null;
  /** Commit the good lines and list the bad ones. */
  readonly skips: boolean;
  /** Answer when the rows can be read. */
  readonly flush: boolean;
}

export interface EventAnswer {
  readonly rows: number;
  /** null: it was all or nothing. */
  readonly skipped: Skipped | null;
}

/** Where a body comes from; throws Refused. */
export interface BodySource {
  /** All of it; null: it may be large, or longer than it looks, and `next` gives it piece by piece. */
  readonly whole: (() => Buffer | Promise<Buffer>) | null;
  /** The next bytes, or null behind the last ones. */
  next(): Promise<Buffer | null>;
}

export interface LineBlock {
  readonly bytes: Buffer;
  /** Number of its first line, from 1. */
  readonly firstLine: number;
}

/** The decode room, as far as events go. Rows it makes have the documents' keys as columns. */
export interface EventCodec {
  /** What a text is by itself: a document, the beginning of one, or neither. */
  readonly opening: (text: Buffer) => 'whole' | 'open' | 'broken';
  /** Throws Refused. */
  readonly object: (target: Target, body: Buffer, ackTimeoutMs: number) => Rows;
  /** Throws Refused whose message names the line. */
  readonly lines: (target: Target, body: Buffer, ackTimeoutMs: number, firstLine: number) => Rows;
  readonly goodLines: (
    target: Target,
    body: Buffer,
    ackTimeoutMs: number,
    firstLine: number,
  ) => {
    readonly rows: Rows;
    readonly skipped: readonly { readonly line: number; readonly reason: string }[];
    readonly skippedCount: number;
  };
  /** Cuts a stream where lines end; throws `body_too_large` for a line that is longer. */
  readonly splitter: (lineBytesMax: number) => LineSplitter;
}

export interface LineSplitter {
  /** Whole lines; null: no line has ended. */
  push(chunk: Buffer): LineBlock | null;
  /** The last line, when the body does not end with a line end. */
  end(): LineBlock | null;
}

/** A statement with its parameters. */
export interface EventSql {
  readonly text: string;
  readonly values: readonly (string | null)[];
}

/** Of the documents of a chunk those from `from` to before `to`: a JSON array. */
export interface EventRows {
  readonly documents: Documents;
  readonly from: number;
  readonly to: number;
  /** Rows whose entry is 1 are left out; null: none is. */
  readonly without: Uint8Array | null;
}

/** A statement that takes documents, which are not copied on their way to the engine where they are large. */
export interface RowsSql {
  readonly text: string;
  readonly values: readonly (string | EventRows | null)[];
}

/** What is sent for the rows of one table, in order. */
export interface TransactionSql {
  /** Before the transaction: fails with 22P02 when `make` has to run first. null: nothing has to be there. */
  readonly check: EventSql | null;
  readonly make: EventSql | null;
  /** Behind BEGIN; 22P02: the table, or who may write into it, has changed. */
  readonly first: readonly EventSql[];
  readonly store: (rows: EventRows) => RowsSql;
  /** Behind rows that were stored. */
  readonly stored: readonly EventSql[];
  /** Decodes one column and changes nothing. */
  readonly probe: (column: Column, rows: EventRows) => RowsSql;
  /** Fails with 22P02 when the table is not the one of the target. */
  readonly confirm: EventSql;
  /** In front of COMMIT. */
  readonly last: readonly EventSql[];
}

/** The commit room, as far as a transaction of one large body goes. */
export interface TransactionDeps {
  /** A connection of a pool for such transactions; throws what keeps one from being had. */
  readonly connect: (database: string) => Promise<PoolClient>;
  /** Takes it back; `broken`: it is in no state to be lent again. */
  readonly giveBack: (client: PoolClient, target: Target, broken: boolean) => void;
  readonly sql: (target: Target, client: PoolClient) => TransactionSql;
  /** The protocol's messages for a statement, up to its Sync. */
  readonly messages: (sql: RowsSql) => readonly Buffer[];
  /** What is told of a row that the engine refuses; `misfit`: the column whose value it could not read. */
  readonly explain: (failed: FailedRow, misfit: Column | null) => Refusal;
  /** Whose fault a failed statement is, as for a group of webhooks. */
  readonly verdict: (
    failed: FailedRow,
  ) => 'row' | 'suspect' | 'table' | 'conflict' | 'beyond' | 'engine' | 'bug';
  /** Whether a commit that failed with this may have stored its rows nevertheless. */
  readonly isInDoubt: (failed: FailedRow) => boolean;
  /** What became of the transaction of this number; asks on a connection that has answered. null: nobody knows. */
  readonly fate: (
    client: PoolClient,
    target: Target,
    xid: string,
    leftMs: () => number,
  ) => Promise<'committed' | 'aborted' | null>;
  /** Whose chunk is at the engine: one after the other leaves processors and log for small requests, and takes no longer. */
  readonly turns: Semaphore;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

export interface FailedRow {
  readonly sqlstate: string;
  readonly message: string;
  readonly constraint: string | null;
  readonly column: string | null;
  /** The engine's function that raised it. */
  readonly routine: string | null;
}
