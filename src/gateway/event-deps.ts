/**
 * What POST /v1/events needs from other rooms, and what its parts pass to each other. Types, joined in main.ts and
 * gateway-main.ts.
 */
import type { PoolClient } from 'pg';
import type { Column } from '../types/shape.ts';
import type { Documents, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { Semaphore } from '../kit/semaphore.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { EventBody } from './event-body.ts';
import type { Skipped } from './skipped-lines.ts';

export const conflicts = ['error', 'update', 'ignore'] as const;
export type OnConflict = (typeof conflicts)[number];

/**
 * How rows are stored in the tables of a database: one implementation for each kind of server (app/gateway-events.ts,
 * app/wire-external-gateway.ts).
 */
export interface EventDeps {
  /**
   * The table that a name denotes now, resolved as in SQL, as the engine said after `sinceMs` of the clock; throws `relation_not_found`,
   * `relation_not_writable`, `key_missing`.
   */
  readonly find: (
    database: string,
    name: string,
    onConflict: OnConflict | null,
    sinceMs?: number,
  ) => Target | Promise<Target>;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** The engine has reported that the table has changed. */
  readonly forget: (database: string, name: string) => void;
  /** Throws `lane_full`, `draining`; called before the body is read. */
  readonly admit: (target: Target) => void;
  readonly submit: (rows: Rows) => Promise<Outcome>;
  /** Releases a database, so that it can be dropped or renamed. */
  readonly release: (database: string) => Promise<void>;
  readonly codec: EventCodec;
  /** For bodies too large for a lane; throws Refused or LineRefused. */
  readonly large: (target: Target, request: EventRequest, body: EventBody) => Promise<EventAnswer>;
  /** For a body with rows that the engine has refused and that are to be left out. */
  readonly skipping: (
    target: Target,
    request: EventRequest,
    body: EventBody,
    small: Buffer,
  ) => Promise<EventAnswer>;
  /** Resolves once everything answered before is readable; throws Refused. */
  readonly readable: (database: string) => Promise<void>;
}

/** What a large body needs on PostgreSQL. */
export interface EventStreamDeps extends Pick<EventDeps, 'forget'> {
  /** One for each large body in flight. */
  readonly streams: Semaphore;
  readonly transaction: TransactionDeps;
}

export interface EventRequest {
  readonly database: string;
  readonly name: string;
  /** null: not specified. */
  readonly onConflict: OnConflict | null;
  /** Commit the good lines and list the bad ones. */
  readonly skips: boolean;
  /** Answer once the rows are readable. */
  readonly flush: boolean;
}

export interface EventAnswer {
  readonly rows: number;
  /** null: rows were not skipped, it was all or nothing. */
  readonly skipped: Skipped | null;
  /** Rows that were not newer than what the table has; absent: none. */
  readonly stale?: number | undefined;
}

/** The source of a body; throws Refused. */
export interface BodySource {
  /** The whole body; null: it may be large, or longer than it appears, and `next` returns it piece by piece. */
  readonly whole: (() => Buffer | Promise<Buffer>) | null;
  /** The next bytes, or null after the last ones. */
  next(): Promise<Buffer | null>;
}

export interface LineBlock {
  readonly bytes: Buffer;
  /** The number of its first line, from 1. */
  readonly firstLine: number;
}

/** The decode room as far as events need it. Its rows have the documents' keys as columns. */
export interface EventCodec {
  /** What a text is on its own: a document, the beginning of one, or neither. */
  readonly opening: (text: Buffer) => 'whole' | 'open' | 'broken';
  /** Throws Refused. */
  readonly object: (target: Target, body: Buffer, ackTimeoutMs: number) => Rows;
  /** Throws Refused with a message that names the line. */
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
  /** Splits a stream at line ends; throws `body_too_large` for a longer line. */
  readonly splitter: (lineBytesMax: number) => LineSplitter;
}

export interface LineSplitter {
  /** Complete lines; null: no line has ended. */
  push(chunk: Buffer): LineBlock | null;
  /** The last line, if the body does not end with a line end. */
  end(): LineBlock | null;
}

/** A statement with its parameters. */
export interface EventSql {
  readonly text: string;
  readonly values: readonly (string | null)[];
}

/** The documents `from` up to, not including, `to` of a chunk: a JSON array. */
export interface EventRows {
  readonly documents: Documents;
  readonly from: number;
  readonly to: number;
  /** Rows whose entry is 1 are left out; null: no row is. */
  readonly without: Uint8Array | null;
}

/** A statement that takes documents; large ones are sent to the engine without a copy. */
export interface RowsSql {
  readonly text: string;
  readonly values: readonly (string | EventRows | null)[];
}

/** The statements for the rows of one table, in order. */
export interface TransactionSql {
  /** After BEGIN; 22P02 or HG001: the table, or who may write to it, has changed; HG003: why it cannot be used. */
  readonly first: readonly EventSql[];
  readonly store: (rows: EventRows) => RowsSql;
  /** After rows were stored. */
  readonly stored: readonly EventSql[];
  /** Decodes one column and changes nothing. */
  readonly probe: (column: Column, rows: EventRows) => RowsSql;
  /** Fails with 22P02 if the table is not the one of the target. */
  readonly confirm: EventSql;
  /** Before COMMIT. */
  readonly last: readonly EventSql[];
}

/** The commit room as far as a transaction of one large body needs it. */
export interface TransactionDeps {
  /** A connection of a pool for such transactions; throws if none can be had. */
  readonly connect: (target: Target) => Promise<PoolClient>;
  readonly sql: (target: Target, client: PoolClient) => TransactionSql;
  /** The protocol's messages for a statement, up to its Sync. */
  readonly messages: (sql: RowsSql) => readonly Buffer[];
  /** The refusal for a row that the engine refuses; `misfit`: the column whose value the engine could not read. */
  readonly explain: (failed: FailedRow, misfit: Column | null) => Refusal;
  /** What caused a statement to fail, as for a group of webhooks. */
  readonly verdict: (
    failed: FailedRow,
  ) => 'row' | 'suspect' | 'table' | 'conflict' | 'beyond' | 'engine' | 'bug';
  /** Whether a commit that failed with this error may have stored its rows after all. */
  readonly isInDoubt: (failed: FailedRow) => boolean;
  /** The outcome of the transaction with this number; needs a connection that has answered. null: unknown. */
  readonly fate: (
    client: PoolClient,
    target: Target,
    xid: string,
    leftMs: () => number,
  ) => Promise<'committed' | 'aborted' | null>;
  /**
   * Limits how many chunks the engine stores at once: taking turns leaves processors and log to small requests, and takes no
   * longer.
   */
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
