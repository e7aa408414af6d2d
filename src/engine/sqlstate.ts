/**
 * THE table of SQLSTATEs for whoever writes rows: takes an error of an engine connection, gives what it means
 * for the rows that were being written. Pure; may touch nothing. Codes are PostgreSQL's (appendix A of its
 * manual); an exact code wins over its class, the first two characters.
 */

/**
 * `row`: a row of this group is at fault; the others can be written without it.
 * `catalog`: the table or the right to it is not what it was: read the catalog again before trying again.
 * `transient`: nothing is wrong with the rows; the same statement can succeed later.
 * `bug`: Headgate sent something it should not have, or the engine is broken; no retry helps.
 */
export type Fault = 'row' | 'catalog' | 'transient' | 'bug';

const classes: Readonly<Record<string, Fault>> = {
  '08': 'transient', // connection exception
  '20': 'row', // case not found: PL/pgSQL in a trigger
  '09': 'row', // triggered action exception
  '0A': 'catalog', // feature not supported: the table became a view, a foreign table …
  '21': 'row', // cardinality violation: one statement met the same key twice
  '22': 'row', // data exception
  '23': 'row', // integrity constraint violation
  '25': 'bug', // invalid transaction state
  '26': 'transient', // a prepared statement is gone: a pooler between gave us another session
  '27': 'row', // triggered data change violation
  '2D': 'row', // invalid transaction termination: a trigger's function tried to commit
  '2F': 'row', // SQL routine exception: a trigger's function ended without a row
  '28': 'transient', // invalid authorization: the owner is changing a password, not the sender
  '38': 'row', // external routine exception: a trigger's function raised it
  '39': 'row', // external routine invocation exception
  '3D': 'catalog', // the database is gone
  '3F': 'catalog', // the schema is gone
  '40': 'transient', // transaction rollback: serialization failure, deadlock
  '42': 'catalog', // access rule violation: undefined table or column, insufficient privilege, wrong type
  '44': 'row', // WITH CHECK OPTION violation
  '53': 'transient', // insufficient resources: disk full, out of memory, too many connections
  '54': 'row', // program limit exceeded: a document too deep or too long for jsonb, an index row too large
  '55': 'transient', // object not in prerequisite state
  '57': 'transient', // operator intervention: cancel, timeout, shutdown, starting up
  '58': 'transient', // system error outside PostgreSQL: I/O
  '72': 'transient', // snapshot too old
  F0: 'transient', // configuration file error
  HV: 'transient', // a foreign data wrapper could not reach its server
  P0: 'row', // PL/pgSQL: RAISE EXCEPTION in a trigger
};

const codes: Readonly<Record<string, Fault>> = {
  '22P03': 'catalog', // invalid binary representation: the column is no longer of the type we encode for
  '22P04': 'bug', // bad COPY file format: our framing
  '25006': 'transient', // read-only transaction: the server became a standby
  '25P03': 'transient', // idle-in-transaction timeout
  '25P04': 'transient', // transaction timeout
  '40002': 'row', // a deferred constraint
  '42601': 'bug', // syntax error
  '42P18': 'bug', // indeterminate datatype
  '54011': 'bug', // too many columns
  '54023': 'bug', // too many arguments
  '55000': 'catalog', // e.g. no row may be inserted into this relation
  XX000: 'catalog', // what a statement meets that runs into a DROP or ALTER: could not open relation with OID …
  XX001: 'bug', // data corrupted
  XX002: 'bug', // index corrupted
};

/** A SQLSTATE without an entry is a bug: it is met once, then it gets one. */
export function faultOf(sqlstate: string): Fault {
  return codes[sqlstate] ?? classes[sqlstate.slice(0, 2)] ?? 'bug';
}

/** The SQLSTATE an engine answered with, or null: the error did not come from the engine. */
export function sqlstateOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const { code, severity } = error as Error & { code?: unknown; severity?: unknown };
  // Node's own codes can look alike (EPIPE has five letters too); only the engine's errors have a severity.
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && typeof severity === 'string' ? code : null;
}

/**
 * `pg` gives its own errors no code, only these texts (lib/client.js and lib/connection.js of version 8).
 */
const lostTexts =
  /^(Connection terminated|timeout expired|timeout exceeded when|Query read timeout|Client has encountered a connection error|Client was closed|The server does not support SSL|There was an error establishing an SSL|stream is destroyed)/;

/** Whether the error says that the connection is gone, or never was there, rather than what the engine answered. */
export function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const state = sqlstateOf(error);
  // 57P01–57P03 and 57P05 end the session; 57014 does not. 08 is the class of lost connections.
  if (state !== null) return state.startsWith('08') || /^57P0[1-35]$/.test(state);
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (syscall !== undefined) return true;
  if (code !== undefined && /^(E[A-Z]+|ERR_(STREAM|SOCKET|TLS|SSL)_[A-Z_]+|CERT_[A-Z_]+)$/.test(code))
    return true;
  return lostTexts.test(error.message);
}

/** What an error met on an engine connection means for the rows. */
export function classify(error: unknown): Fault {
  const state = sqlstateOf(error);
  if (state !== null) return faultOf(state);
  return isConnectionLost(error) ? 'transient' : 'bug';
}
