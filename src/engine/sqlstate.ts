/**
 * The one table of SQLSTATEs for writers of rows: takes an error of an engine connection, returns what it means for the
 * rows that were being written. Pure; may touch nothing. Codes are PostgreSQL's (appendix A of its manual); an exact
 * code takes precedence over its class, the first two characters.
 *
 * A code alone is weak evidence: the author of a trigger, a check's function or a type chooses the code it fails with.
 * commit/interpret-reply.ts says what else is considered.
 */

/**
 * `row`: a row of this group is at fault; the others can be written without it.
 * `suspect`: a row, or the table and the right to it, which are then not what they were.
 * `conflict`: the engine preferred another transaction; the same rows can succeed at once.
 * `beyond`: something that rows of this kind need cannot be reached (a foreign server, a node, a file).
 * `engine`: the engine accepts no rows now, or not in this time.
 * `bug`: Headgate sent something it should not have; no retry helps.
 */
export type Fault = 'row' | 'suspect' | 'conflict' | 'beyond' | 'engine' | 'bug';

const classes: Readonly<Record<string, Fault>> = {
  '08': 'beyond', // connection exception: this connection has just answered, so it is another one
  '20': 'row', // case not found: PL/pgSQL in a trigger
  '09': 'row', // triggered action exception
  '21': 'row', // cardinality violation: one statement met the same key twice
  '22': 'row', // data exception
  '23': 'row', // integrity constraint violation
  '27': 'row', // triggered data change violation
  '2D': 'row', // invalid transaction termination: a trigger's function tried to commit
  '2F': 'row', // SQL routine exception: a trigger's function ended without a row
  '28': 'beyond', // invalid authorization, for whatever a trigger logs in to
  '38': 'row', // external routine exception: a trigger's function raised it
  '39': 'row', // external routine invocation exception
  '40': 'conflict', // transaction rollback: serialization failure, deadlock
  '44': 'row', // WITH CHECK OPTION violation
  '53': 'engine', // insufficient resources: disk full, out of memory, too many connections
  '54': 'row', // program limit exceeded: a document too deep or too long for jsonb, an index row too large
  '57': 'engine', // operator intervention: cancel, timeout, shutdown, starting up
  '58': 'engine', // system error outside PostgreSQL: I/O
  '72': 'beyond', // snapshot too old
  F0: 'engine', // configuration file error
  HV: 'beyond', // a foreign data wrapper could not reach its server
  P0: 'row', // PL/pgSQL: RAISE EXCEPTION in a trigger
};

/** A lock that a statement with NOWAIT or a timeout did not wait for. */
export const lockNotAvailable = '55P03';

/**
 * What only Headgate's own protocol can cause, unless code raises it by hand (commit/interpret-reply.ts): a pooler has switched to another session, or
 * has lost count of what it has prepared there. No row is at fault; it is tried again with unnamed statements, or later.
 */
const ofProtocol: readonly string[] = [
  '26000', // no such prepared statement
  '42P05', // the prepared statement exists already
  '25P02', // a statement after one that failed, in a transaction
  '3B001', // no such savepoint
];

/** Whether an ERROR that nobody has raised concerns what the session should remember of Headgate's own. */
export function isOfProtocol(sqlstate: string): boolean {
  return ofProtocol.includes(sqlstate);
}

const codes: Readonly<Record<string, Fault>> = {
  ...Object.fromEntries(ofProtocol.map((code) => [code, 'engine' as const])),
  '22P04': 'bug', // bad COPY file format: Headgate's own framing
  '25006': 'engine', // read-only transaction: the server became a standby
  '25P03': 'engine', // idle-in-transaction timeout
  '25P04': 'engine', // transaction timeout
  '40002': 'row', // a deferred constraint
  [lockNotAvailable]: 'conflict',
  '58P01': 'beyond', // a missing file, which may be one that a function reads
  '58P02': 'beyond', // a file that already exists
  XX001: 'beyond', // data corrupted: at the place where this row was stored
  XX002: 'beyond', // index corrupted
};

/**
 * Codes that are not listed here are `suspect`: 0A000 (the table became a view), 3D and 3F (database, schema gone), 42
 * (undefined table or column, insufficient privilege, wrong type), 55000, XX000 (a statement that runs into a DROP or
 * ALTER) indicate that the table has changed, but are raised by functions and types just as well; so are unknown codes.
 */
export function faultOf(sqlstate: string): Fault {
  return codes[sqlstate] ?? classes[sqlstate.slice(0, 2)] ?? 'suspect';
}

/** The SQLSTATE that the engine answered with, or null: the error did not come from the engine. */
export function sqlstateOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const { code, severity } = error as Error & { code?: unknown; severity?: unknown };
  // Node's own codes can look alike (EPIPE has five letters, too); only the engine's errors have a severity.
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && typeof severity === 'string' ? code : null;
}

/**
 * Functions of PostgreSQL that only a statement runs, which chooses the SQLSTATE, or is at fault itself: RAISE and ASSERT of PL/pgSQL, and
 * Bind with the wrong number of parameters.
 */
const ofStatements: ReadonlySet<string> = new Set([
  'exec_stmt_raise',
  'exec_stmt_assert',
  'exec_bind_message',
]);

/**
 * Whether an error of the engine ended a statement only, and not the session: the engine says ERROR, not FATAL. Servers translate the word,
 * but not the names of their functions.
 */
function isOfStatement(error: Error): boolean {
  const { severity, routine } = error as Error & { severity?: string; routine?: string };
  return severity === 'ERROR' || ofStatements.has(routine ?? '');
}

/**
 * Whether the same statement may succeed later: others were preferred to it, also if the statement says so itself, or the engine lacks
 * something, if the engine says so.
 */
export function isTransient(error: Error): boolean {
  const state = sqlstateOf(error) ?? '';
  const { routine = '' } = error as Error & { routine?: string };
  return state.startsWith('40') || (/^5[38]/.test(state) && !ofStatements.has(routine));
}

/** `pg` gives its own errors no code, only these texts (lib/client.js and lib/connection.js of version 8). */
const lostTexts =
  /^(Connection terminated|timeout expired|timeout exceeded when|Query read timeout|Client has encountered a connection error|Client was closed|The server does not support SSL|There was an error establishing an SSL|stream is destroyed)/;

/** Whether the error means that the connection is lost, or never existed, rather than being an answer of the engine. */
export function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const state = sqlstateOf(error);
  // 57P01–57P03 and 57P05 end the session; 57014 does not. 08 is the class of lost connections. But a statement may fail with any of
  // them, and the session goes on.
  if (state !== null) return (state.startsWith('08') || /^57P0[1-35]$/.test(state)) && !isOfStatement(error);
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (syscall !== undefined) return true;
  if (code !== undefined && /^(E[A-Z]+|ERR_(STREAM|SOCKET|TLS|SSL)_[A-Z_]+|CERT_[A-Z_]+)$/.test(code))
    return true;
  return lostTexts.test(error.message);
}

/**
 * Of the parser of names, and for bytes that are no text, or none in the database's encoding (22P05). With any other error the engine has
 * failed.
 */
const misnamed = /^(?:42601|42602|42622|0A000|22021|22023|22P05)$/;

/** Whether a text that was looked up as the name of a relation is no name there. */
export function isMisnamed(error: unknown): boolean {
  return misnamed.test(sqlstateOf(error) ?? '');
}

/** PgBouncer accepts only the few startup parameters that it can track for each of its clients. */
export function refusesParameters(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('unsupported startup parameter');
}
