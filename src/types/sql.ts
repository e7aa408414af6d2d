/** Types only: what the SQL door and EXPLAIN VALIDATE pass to each other, as request.ts has it for requests. */
import type { SqlError, SqlFailure } from '../errors/refusals.ts';

/**
 * What the SQL door does with a query string that contains a statement of Headgate's own. All strings are
 * latin1 views of the client's bytes: one char is one byte, whatever client_encoding is.
 */
export type Rewrite =
  | Rewritten
  | RefusedStatement
  /** What to send has to be found out first; `prepare` throws SqlFailure. */
  | { readonly kind: 'deferred'; readonly prepare: () => Promise<Rewritten> };

/** Send `sql` instead. */
export interface Rewritten {
  readonly kind: 'rewritten';
  readonly sql: string;
  /**
   * One entry per top-level statement that yields a CommandComplete, in order: the tag that replaces the engine's,
   * or null to keep the engine's.
   */
  readonly tags: readonly (string | null)[];
  /** 0-based byte offset in `sql` → 0-based byte offset in the client's text. */
  readonly originalOffset: (offset: number) => number;
  /** Runs before `sql` is sent, e.g. creating the catalog in this database; throws SqlFailure. */
  readonly before: (() => Promise<void>) | null;
}

/** Answer with this error, as PostgreSQL would answer a syntax error in the same place. */
export interface RefusedStatement {
  readonly kind: 'error';
  readonly error: SqlError;
}

/** What the relay knows of a client's session when it asks for a rewrite. */
export interface SqlSession {
  readonly database: string;
  /** The role that the client has logged in as. */
  readonly user: string;
  /** From ParameterStatus; decides whether backslashes escape in plain literals. */
  readonly standardConformingStrings: boolean;
  /** From ParameterStatus, e.g. UTF8. */
  readonly clientEncoding: string;
  /** Statements of Headgate's own in this session, until the text to send is known; absent: there can be none. */
  readonly queries?: () => SessionQueries;
}

/** A row as texts, each byte one character; null: NULL. */
export type OwnRow = readonly (string | null)[];

/** Statements of Headgate's own in a client's session, one after another, as the role that the session has at the time. */
export interface SessionQueries {
  /** The client has begun a transaction. */
  readonly inTransaction: boolean;
  /** Why no more of them run: the client has cancelled its statement, or left. Otherwise null. */
  readonly stopped: SqlFailure | null;
  /** Returns the rows. Throws SqlFailure: the engine's own error, or `stopped`, unless `evenStopped` is set. */
  run(sql: string, evenStopped?: boolean): Promise<readonly OwnRow[]>;
}

/** EXPLAIN VALIDATE: a request as its owner describes it. */
export interface ExplainRequest {
  /** Names and values in turn, each byte one character, as node:http passes them. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  readonly method: string;
  /** As the sender calls it, or path and query alone; null: the path of the table. */
  readonly url: string | null;
  /** A timestamp or seconds since 1970; null: now. */
  readonly now: string | null;
  /** Names of headers that the request had, and whose values are not known. */
  readonly notKept: readonly string[];
}

export interface ExplainQuestion {
  readonly database: string;
  /** Only tables that this role may own are examined: nothing is evaluated on behalf of others. */
  readonly user: string;
  /** null: every table of that name; only the client's session knows which one is meant. */
  readonly schema: string | null;
  readonly table: string;
  readonly request: ExplainRequest;
}

/** What EXPLAIN VALIDATE shows of one table; it reveals no secret. */
export interface ExplainedTable {
  /** pg_class.oid */
  readonly oid: number;
  readonly accepted: boolean;
  /** An ANSWER … WHEN matches: nothing is stored. */
  readonly answered?: boolean;
  /** false: whether it is accepted depends on what was not kept. */
  readonly known?: false;
  readonly reason: string;
  readonly steps: readonly ExplainedStep[];
}

interface ExplainedStep {
  readonly expression: string;
  readonly value: string;
}
