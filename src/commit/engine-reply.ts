/**
 * What the engine answers to a transaction, and what follows for its rows. `done` only if the backend has said that it is idle again and every
 * statement had completed; `failed` if the backend refused with an ERROR and is ready again, which ends an implicit transaction with nothing stored;
 * `lost` for everything else (the connection ended, even after an ERROR; a FATAL; silence past the deadline), when nobody knows. What was committed on
 * this server alone, because somebody cut short the wait for its standby, is `lost`, too: it may be gone with the server.
 */
import type { Outcome, Rows } from '../types/rows.ts';

export interface Failed {
  readonly kind: 'failed';
  readonly sqlstate: string;
  readonly message: string;
  /** Statements of this answer that had completed before. */
  readonly completed: number;
  /** All statements had ended, and the commit itself failed. */
  readonly atCommit: boolean;
  /** The number of the transaction, if it was received. */
  readonly xid: string | null;
  /** What it was about, if the engine says so; names only, never values. */
  readonly constraint: string | null;
  readonly table: string | null;
  readonly column: string | null;
  /** It refers to a position in the statement's text: found before any row was read. */
  readonly placed: boolean;
  /** The engine's CONTEXT. */
  readonly where: string;
  /** The engine's function that raised it; null: the engine names none. */
  readonly routine: string | null;
}

/**
 * The message of an ERROR. Its DETAIL may hold other rows' data and is left out, except that of numeric's own function, which names the column's precision
 * and scale, and nothing else.
 */
export function messageOf({
  message = '',
  detail,
  routine,
}: {
  readonly [field in 'message' | 'detail' | 'routine']?: string | undefined;
}): string {
  const tellsType = routine?.startsWith('apply_typmod') === true && detail !== undefined;
  return tellsType ? `${message}: ${detail}` : message;
}

export type EngineReply = Completed | Failed | LostConnection;

export interface Completed {
  readonly kind: 'done';
  /** The last command tag. */
  readonly tag: string;
  readonly xid: string | null;
  /** What statements have said of rows that were not newer (newest-statements.ts); absent: nothing. */
  readonly stale?: readonly StalePlaces[];
}

export interface StalePlaces {
  /** Statements of this answer that had completed before. */
  readonly completed: number;
  readonly places: readonly number[];
}

export interface LostConnection {
  readonly kind: 'lost';
  readonly reason: string;
  /** The number of the transaction, if it was received. */
  readonly xid: string | null;
}

/** The result of an attempt to store rows. */
export type StoreAttempt = Committed | Failed | { readonly kind: 'lost'; readonly reason: string };

export interface Committed {
  readonly kind: 'committed';
  /** Rows that were not stored, and what their senders read; absent: all were. */
  readonly apart?: ReadonlyMap<Rows, Outcome>;
  /** Copies of deliveries that are stored; absent: none. */
  readonly copies?: ReadonlySet<Rows>;
  /** How many rows of a request were not newer than what the table has; absent: none. */
  readonly stale?: ReadonlyMap<Rows, number>;
}

/** The outcome of rows of such an attempt that are not set apart. */
export function committedOutcome(rows: Rows, { copies, stale: found }: Committed): Outcome {
  if (copies?.has(rows) === true) return { kind: 'committed', rows: rows.count, isCopy: true };
  const stale = found?.get(rows) ?? 0;
  if (stale === 0) return { kind: 'committed', rows: rows.count };
  return { kind: 'committed', rows: rows.count - stale, stale };
}

/** One attempt for each unit of a transaction, and how the transaction has ended for what stored nothing in it. */
export interface UnitAttempts {
  readonly attempts: readonly StoreAttempt[];
  readonly end: StoreAttempt;
}

export const lost: LostConnection = { kind: 'lost', reason: 'no answer', xid: null };

/** The routine by which the coordinator of a Citus cluster passes on what another server has said, with its SQLSTATE and context. */
export const handedOn = 'ReportResultError';
