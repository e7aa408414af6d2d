/**
 * Types only: what the rooms hand each other. No room imports another stage; they meet here and are joined
 * in ingest.ts and main.ts.
 */
import type { Refusal, SqlError } from './refusals.ts';

/** A request as far as its headers, and the promise of its body. */
export interface Arrival {
  readonly method: string;
  /** The request target as received: path and query, undecoded. */
  readonly target: string;
  /** Header names and values in turn, as received. */
  readonly rawHeaders: readonly string[];
  /** Time of arrival, ms since 1970. */
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  /** Reads the body; throws `Refused` (408, 411, 413, 415 …). Called at most once. */
  body(): Promise<Buffer>;
}

/** What a VALIDATE expression may look at. */
export interface CheckRequest {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly arrivedAtMs: number;
  readonly body: Buffer;
}

/** A compiled VALIDATE expression: true accepts; false, NULL and every error refuse. Never throws. */
export type Check = (request: CheckRequest) => boolean;

/** A webhook table as one catalog snapshot knows it. Immutable; a changed table is a new Target. */
export interface Target {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  /** pg_class.oid */
  readonly oid: number;
  /** The single JSONB column, as PostgreSQL names it. */
  readonly column: string;
  /** null: the table has no VALIDATE. `'unusable'`: it has one that cannot be evaluated now: 503, never accepted. */
  readonly check: Check | null | 'unusable';
  /** false: answered after COMMIT without waiting for the disk (webhook.wait_for_persistence = false). */
  readonly waitsForDisk: boolean;
}

/** The rows of one request, ready for the engine: all of them are committed, or none. */
export interface Rows {
  readonly target: Target;
  /** One JSON document a row, byte for byte as it arrived. */
  readonly documents: readonly Buffer[];
  readonly bytes: number;
}

/**
 * What became of a request's rows. `aborted`: certainly not stored. `unknown`: the connection was lost while
 * committing; the rows may be stored.
 */
export type Outcome =
  | { readonly kind: 'committed'; readonly rows: number }
  | { readonly kind: 'aborted'; readonly refusal: Refusal }
  | { readonly kind: 'unknown'; readonly refusal: Refusal };

/** Several requests of one table on their way to the engine in one transaction. */
export interface Group {
  readonly target: Target;
  readonly members: readonly Rows[];
  readonly rows: number;
  readonly bytes: number;
}

/** The commit stage: one group in, one outcome per member out, in order. Never rejects. */
export type CommitGroup = (group: Group) => Promise<readonly Outcome[]>;

/**
 * What the SQL door does with a query string that holds a statement of Headgate's own. All strings are
 * latin1 views of the client's bytes: one char is one byte, whatever client_encoding is.
 */
export type Rewrite =
  | Rewritten
  | RefusedStatement
  /** What to send has to be found out first; throws SqlFailure. */
  | { readonly kind: 'deferred'; readonly prepare: () => Promise<Rewritten> };

/** Send `sql` instead. */
export interface Rewritten {
  readonly kind: 'rewritten';
  readonly sql: string;
  /**
   * One entry per top-level statement that yields a CommandComplete, in order: the tag to put in its place,
   * or null to leave the engine's own.
   */
  readonly tags: readonly (string | null)[];
  /** 0-based byte offset in `sql` → 0-based byte offset in the client's text. */
  readonly originalOffset: (offset: number) => number;
  /** Runs before `sql` is sent, e.g. creating the catalog in this database; throws SqlFailure. */
  readonly before: (() => Promise<void>) | null;
}

/** Answer with this error, as PostgreSQL answers a syntax error in the same place. */
export interface RefusedStatement {
  readonly kind: 'error';
  readonly error: SqlError;
}

/** Looks for Headgate's statements in a query string; null: there is none, send the text as it is. */
export type RewriteSql = (sql: string, session: SqlSession) => Rewrite | null;

/** What the relay knows of a client's session when it asks for a rewrite. */
export interface SqlSession {
  readonly database: string;
  /** The role that the client has logged in as. */
  readonly user: string;
  /** From ParameterStatus; decides whether backslashes escape in plain literals. */
  readonly standardConformingStrings: boolean;
  /** From ParameterStatus, e.g. UTF8. */
  readonly clientEncoding: string;
}

/** EXPLAIN VALIDATE: a request as its owner describes it. */
export interface ExplainRequest {
  /** Names and values in turn, each byte one character, as node:http hands them over. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  readonly method: string;
  /** As the sender calls it, or path and query alone; null: the path of the table. */
  readonly url: string | null;
  /** A timestamp or seconds since 1970; null: now. */
  readonly now: string | null;
}

export interface ExplainQuestion {
  readonly database: string;
  /** Only tables that this role may own are looked at: nothing is evaluated on behalf of others. */
  readonly user: string;
  /** null: every table of that name; which one is meant is known in the client's session alone. */
  readonly schema: string | null;
  readonly table: string;
  readonly request: ExplainRequest;
}

/** What EXPLAIN VALIDATE shows of one table; nothing in it tells a secret. */
export interface ExplainedTable {
  /** pg_class.oid */
  readonly oid: number;
  readonly accepted: boolean;
  readonly reason: string;
  readonly steps: readonly ExplainedStep[];
}

export interface ExplainedStep {
  readonly expression: string;
  readonly value: string;
}
