/**
 * The statements of a lease on rows of a table (docs/workers.md): claim, extend, done, failed. Each is one statement and a transaction of its own, so
 * a worker holds no transaction open while it works: nothing waits for it, no stream and no vacuum. Takes names, returns texts. Pure.
 *
 * A row is open while its `done` column is NULL, claimed while its time has not come, and dead once it has had all its attempts and its time is over.
 * The number of the attempt is the fence: what a worker says about an attempt that is no longer the row's latest changes nothing.
 */

export interface LeaseColumns {
  /** Of the primary key. */
  readonly id?: string;
  /** TIMESTAMPTZ; NULL: not done. */
  readonly done?: string;
  /** INT NOT NULL DEFAULT 0 */
  readonly attempts?: string;
  /** TIMESTAMPTZ NOT NULL DEFAULT now(): not before. */
  readonly runAfter?: string;
  /** TEXT */
  readonly lastError?: string;
}

export interface Lease {
  /** $1 rows, $2 seconds, $3 attempts at most. Returns of the rows what `returning` names. */
  readonly claim: string;
  /** $1 id, $2 attempt, $3 seconds. */
  readonly extend: string;
  /** $1 an array of ids, $2 their attempt: the rows that are still the attempt's are done. */
  readonly doneAll: string;
  /** Both in one: $1 to $3 as for `claim`, $4 and $5 as for `doneAll`. A row that both want, since its lease is over, is either done or claimed. */
  readonly doneAndClaim: string;
  /** $1 id, $2 attempt, $3 what went wrong, $4 seconds until the next attempt. */
  readonly failed: string;
  /** $1 id, $2 attempt, $3 what went wrong, $4 attempts at most: there will be no other. */
  readonly dead: string;
  /** Marks one row ($1 id, $2 attempt, from `first` on) in front of another statement, which reads the row from `done`. */
  readonly doneWith: (statement: string, first: number) => string;
  readonly attempts: string;
  readonly id: string;
}

const name = String.raw`(?:"(?:[^"\0]|"")+"|[\p{L}_][\p{L}\p{N}_$]*)`;
const qualified = new RegExp(`^${name}(?:\\.${name})?$`, 'u');

/**
 * True, and the commit of the statement does not wait for the disk, so requests of senders wait less. A crash of the server may take back the last
 * such statements (at most three times `wal_writer_delay`, 0.6 s): their rows are claimed and handled again, as at the end of a lease.
 */
const notFlushed = `(SELECT pg_catalog.set_config('synchronous_commit', 'off', true)) IS NOT NULL`;

/**
 * `table`, `schema.table`, quoted as in SQL. Throws TypeError for anything else. `only`: a condition on a row `o`; `returning`: SQL; `meant`: a condition on no row,
 * which is parsed after every name of the table.
 */
export function leaseOn(
  table: string,
  columns: LeaseColumns = {},
  only = 'true',
  returning = '*',
  meant: string | null = null,
): Lease {
  if (!qualified.test(table)) throw new TypeError(`"${table}" is no name of a table`);
  const quote = (text: string): string => `"${text.replaceAll('"', '""')}"`;
  const id = quote(columns.id ?? 'id');
  const done = quote(columns.done ?? 'done_at');
  const attempts = quote(columns.attempts ?? 'attempts');
  const runAfter = quote(columns.runAfter ?? 'run_after');
  const lastError = quote(columns.lastError ?? 'last_error');
  // IS NULL would let the planner read the whole index on open rows, all of its dead entries too, instead of the primary key.
  const isOpen = `pg_catalog.num_nulls(${done}) = 1`;
  const mine = (first: number): string => `${id} = $${first} AND ${attempts} = $${first + 1} AND ${isOpen}`;
  const still = `${meant === null ? '' : ` AND ${meant}`} AND ${notFlushed}`;
  const markDone = `UPDATE ${table} SET ${done} = now(), ${lastError} = NULL`;
  // LIMIT (SELECT …): the planner takes an unknown limit for a tenth of the rows, and so reads the index in order, which removes the dead entries of rows that
  // were claimed. With a known one it takes a bitmap, which visits all of them in each claim until VACUUM has removed them.
  const claim = `UPDATE ${table} SET ${attempts} = ${attempts} + 1, ${runAfter} = pg_catalog.now() + pg_catalog.make_interval(secs => $2)
WHERE ${id} = ANY (ARRAY(
  SELECT ${id} FROM ${table} o WHERE ${done} IS NULL AND ${runAfter} <= now() AND ${attempts} < $3 AND ${only}
  ORDER BY ${runAfter} LIMIT (SELECT $1::pg_catalog.int8) FOR UPDATE SKIP LOCKED))${still} RETURNING ${returning}`;
  const doneAll = (first: number): string =>
    `${markDone} WHERE ${id} = ANY ($${first}) AND ${attempts} = $${first + 1} AND ${isOpen}`;
  return {
    claim,
    extend: `UPDATE ${table} SET ${runAfter} = pg_catalog.now() + pg_catalog.make_interval(secs => $3) WHERE ${mine(1)} AND ${notFlushed}`,
    doneAll: `${doneAll(1)}${still}`,
    doneAndClaim: `WITH "headgate done" AS (${doneAll(4)}) ${claim}`,
    doneWith: (statement, first) =>
      `WITH done AS (${markDone} WHERE ${mine(first)} RETURNING *) ${statement}`,
    failed: `UPDATE ${table} SET ${lastError} = $3, ${runAfter} = pg_catalog.now() + pg_catalog.make_interval(secs => $4) WHERE ${mine(1)}${still}`,
    dead: `UPDATE ${table} SET ${lastError} = $3, ${attempts} = greatest(${attempts}, $4), ${runAfter} = now() WHERE ${mine(1)}${still}`,
    attempts: columns.attempts ?? 'attempts',
    id: columns.id ?? 'id',
  };
}

/** Seconds until the next attempt: 2, 4, 8 … `mostS`, of which up to half is left to chance, so that many do not come back together. */
export function backoffS(attempt: number, mostS: number, random: () => number = Math.random): number {
  return Math.min(mostS, 2 ** Math.min(attempt, 30)) * (0.5 + random() / 2);
}
