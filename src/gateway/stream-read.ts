/**
 * The queries behind the stream of a table's rows. Takes a borrowed session, returns the present state of the table, and pages of its rows
 * by address; refuses with `relation_not_found`, `relation_not_streamed`, `engine_unavailable`, `table_changed` and `result_too_large`.
 * No transaction outlives a page.
 *
 * Planning a query runs code of the table's owner: constant parts of expressions of its indexes and of CREATE STATISTICS. So a page is read in a
 * session of a role to which that gives nothing: the reader's, if the owner could act as that role anyway, or else the owner's.
 */
import type { ClientBase, Connection, DatabaseError } from 'pg';
import { cutOff } from '../engine/close-client.ts';
import { isMisnamed, sqlstateOf } from '../engine/sqlstate.ts';
import { writtenPlainly } from '../kit/plain-settings.ts';
import { endedSince, nowColumns, onceOnDisk, transactionsOf } from '../kit/position.ts';
import type { Ended, NowColumns, TransactionsNow } from '../kit/position.ts';
import { mayNameRelation, quoteIdentifier, quoteLiteral, relationName, stillNamed } from '../kit/sql-text.ts';
import { trustedSql } from '../relations/owner-code.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { addRow, inside } from './row-text.ts';
import type { Encoders, Field } from './row-text.ts';
import { StatementExecution } from './sql-run.ts';
import { SqlRefused } from './sql-sessions.ts';
import type { BorrowedConnection, OwnersSession, TableRead } from './sql-sessions.ts';
import { addressOf, blockOf, parseAddress, printAddress } from './stream-position.ts';
import type { RowAddress, UnreadRange } from './stream-position.ts';
import { bind, closeStatement, describePortal, execute, flush, parse, sync } from './wire-messages.ts';

/** The state of a table at one moment; the log up to there is on the disk, so that no crash reuses the numbers of its transactions. */
export interface TableNow extends TransactionsNow, TableRead {
  readonly file: number;
  /** Of the file when no transaction from `next` on had begun; 0 if only a session of the owner asks. */
  readonly blocks: number;
}

interface NowRow extends NowColumns {
  readonly oid: string;
  readonly kind: string;
  readonly readable: string;
  readonly usable: string;
  readonly reader: string;
  readonly owner: string | null;
  readonly owner_name: string;
  readonly guarded: string;
  readonly schema: string;
  readonly table: string;
  readonly file: string | null;
  readonly blocks: string | null;
}

/** The snapshot is taken first, then the size of the file. (A snapshot's xmax does not include numbers that are only assigned.) */
const nowOf = (oid: string, known: Ended | null, { reader, owner, measures }: OwnQuestion): string => `
  select c.oid::pg_catalog.text as oid, c.relkind::pg_catalog.text as kind, n.nspname::pg_catalog.text as schema,
    pg_catalog.has_table_privilege(${reader}, c.oid, 'SELECT')::pg_catalog.text as readable,
    pg_catalog.has_schema_privilege(${reader}, c.relnamespace, 'USAGE')::pg_catalog.text as usable,
    ${reader}::pg_catalog.text as reader, pg_catalog.pg_get_userbyid(c.relowner)::pg_catalog.text as owner_name,
    case when ${owner} then c.relowner::pg_catalog.text end as owner, c.relrowsecurity::pg_catalog.text as guarded,
    c.relname::pg_catalog.text as table, pg_catalog.pg_relation_filenode(c.oid)::pg_catalog.text as file,
    case when ${measures} then pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::pg_catalog.int8 end::pg_catalog.text as blocks,
    ${nowColumns(known)}
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = ${oid}`;

interface OwnQuestion {
  /** The reader's name. */
  readonly reader: string;
  /** Whether the session has to be one of the owner of `c`. */
  readonly owner: string;
  /** Whether the size of the table is asked, which waits for whoever has locked it: not for others than the reader trusts. */
  readonly measures: string;
}

function questionsOf({ ofOwner, readsAnyones = false }: BorrowedConnection): OwnQuestion {
  if (ofOwner === undefined) {
    const isTrusted = readsAnyones ? 'true' : trustedSql('c.relowner');
    return { reader: 'current_user', owner: `not ${isTrusted}`, measures: isTrusted };
  }
  const { reader, owner } = ofOwner;
  // If it is another one, the reader's session says whose session is needed.
  const isHers = `c.relowner operator(pg_catalog.=) ${owner}::pg_catalog.oid`;
  return { reader: `${quoteLiteral(reader)}::pg_catalog.name`, owner: isHers, measures: isHers };
}

export const byOid = (oid: number): string => `${oid}::pg_catalog.oid`;
/** Throws Refused. */
export function byName(name: string): string {
  if (!mayNameRelation(name)) throw new Refused('relation_not_found');
  return `pg_catalog.to_regclass(${quoteLiteral(name)})::pg_catalog.oid`;
}

/** `which`: `byOid` or `byName`. `known`: what had ended before. Waits until everything committed is on the disk. */
export async function tableNow(
  borrowed: BorrowedConnection,
  which: string,
  known: Ended | null = null,
): Promise<TableNow> {
  const { client } = borrowed;
  const query = nowOf(which, known, questionsOf(borrowed));
  const ask = async (): Promise<NowRow> => {
    const { rows } = await client.query<NowRow>(query).catch((error: unknown) => {
      throw isMisnamed(error) ? new Refused('relation_not_found') : error;
    });
    const [now] = rows;
    if (now === undefined) throw new Refused('relation_not_found');
    if (now.kind !== 'r' || now.file === null) throw new Refused('relation_not_streamed');
    if (now.readable !== 'true') throw denied(`table ${relationName(now)}`);
    if (now.usable !== 'true') throw denied(`schema ${quoteIdentifier(now.schema)}`);
    if (now.owner !== null && now.guarded === 'true') throw guardedBy(now);
    return now;
  };
  const now = await onceOnDisk(ask, (sql) => client.query(sql), limits);
  if (now === null) throw new Refused('engine_unavailable');
  const { oid, file, blocks } = now;
  return {
    oid: Number(oid),
    file: Number(file),
    blocks: Number(blocks),
    name: relationName(now),
    reader: now.reader,
    owner: now.owner === null ? null : Number(now.owner),
    ownerName: now.owner_name,
    ...transactionsOf(now),
  };
}

const denied = (what: string): SqlRefused =>
  new SqlRefused({ sqlstate: '42501', message: `permission denied for ${what}` });

function guardedBy(now: NowRow): Refused {
  return new Refused(
    'relation_not_streamed',
    `the row-level security of ${relationName(now)} is code of its owner "${now.owner_name}", in whose session the table is read, and would not apply there to role "${now.reader}"`,
  );
}

export interface Page {
  /** Each one as a JSON object in one line. */
  readonly rows: readonly string[];
  /** The address of each row. */
  readonly at: readonly RowAddress[];
  /** Everything up to here has been read. */
  readonly to: RowAddress;
}

/** Of the row `t`. */
export const allColumns = 't.*';

/** Reads tables page by page; page sizes adapt to the rows. */
export class Pager {
  readonly #receivedBytesMax: number;
  #blocks: number = limits.streamChunkBlocksMax;
  /** How many rows to request at first, and at most. */
  #rows = 16;
  #rowsMax: number = limits.streamRowsMax;

  /** `receivedBytesMax`: how many bytes a page may receive. */
  constructor(receivedBytesMax: number = limits.streamReceivedBytesMax) {
    this.#receivedBytesMax = receivedBytesMax;
  }

  /** Reads a page from the beginning of the gap. Refuses with `table_changed` if the table or its file has changed. */
  async read(
    { client, encoders, ofOwner, readsAnyones }: BorrowedConnection,
    table: TableNow,
    gap: UnreadRange,
    columns: string,
  ): Promise<Page> {
    const chunkEnd = addressOf(blockOf(gap.from) + this.#blocks);
    // Beyond the table's last block there are only new rows, so the last page covers the rest of the gap.
    const to = blockOf(chunkEnd) >= table.blocks ? gap.to : Math.min(gap.to, chunkEnd);
    const sql = pageSql(table, gap, to, columns);
    const same = sameSql(table, readsAnyones === true ? 'true' : whoseSql(ofOwner));
    const run = new PageRun(client, [same, sql], this.#rows, this.#rowsMax, this.#receivedBytesMax);
    const { fields, rows, bytes, whole } = await run.ended.catch(async (error: unknown) => {
      await client.query('rollback').catch(() => undefined);
      if (error instanceof Error && (isMoved(error) || namesNone(error))) throw new Refused('table_changed');
      if (!run.overflowed) throw error;
      if (this.#rowsMax === 1) throw new Refused('result_too_large');
      // The size of rows is unknown until they have arrived.
      this.#rowsMax = 1;
      throw new Refused('engine_unavailable');
    });
    this.#rowsMax = Math.min(limits.streamRowsMax, this.#rowsMax * 4);
    if (rows.length > 0) this.#rows = Math.ceil(limits.streamPageBytes / (bytes / rows.length + 1));
    this.#blocks = whole
      ? Math.min(limits.streamChunkBlocksMax, this.#blocks * 2)
      : Math.max(16, Math.ceil(this.#blocks / 2));
    const texts = await encoders(fields.slice(1));
    const at = rows.map(([address]) => parseAddress(address ?? ''));
    const last = at.at(-1);
    return {
      rows: rows.map((row) => textOf(texts, row.slice(1))),
      at,
      to: whole || last === undefined ? to : last + 1,
    };
  }
}

/** The table was renamed meanwhile: the statement's own text names none, and the error does not come from code of the table. */
function namesNone(error: Error): boolean {
  return sqlstateOf(error) === '42P01' && 'position' in error && error.position !== undefined;
}

/** What stands where a boolean is expected, of which PostgreSQL says in any language that it is none. */
const moved = 'table_moved';

function isMoved(error: Error): boolean {
  return sqlstateOf(error) === '22P02' && /"(?:table_moved|elsewhere)"/.test(error.message);
}

/**
 * A statement that fails if rows in another file would be read, which have other addresses, or with the rights of the wrong role. By then the page's
 * own statement has been parsed, which keeps owner, policies and file from changing until its transaction ends; and it has not been planned yet.
 */
function sameSql({ oid, file }: TableNow, whose: string): string {
  return `SELECT (CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) ${oid}::pg_catalog.oid
  AND pg_catalog.pg_relation_filenode(c.oid) OPERATOR(pg_catalog.=) ${file}::pg_catalog.oid AND ${whose}) THEN 'true' ELSE '${moved}' END)::pg_catalog.bool`;
}

/** Whether the session's role may read `c`, as far as PostgreSQL does not ask that itself. */
function whoseSql(session: OwnersSession | undefined): string {
  if (session === undefined) return trustedSql('c.relowner');
  const reader = `${quoteLiteral(session.reader)}::pg_catalog.name`;
  return `c.relowner OPERATOR(pg_catalog.=) ${session.owner}::pg_catalog.oid AND NOT c.relrowsecurity
  AND pg_catalog.has_table_privilege(${reader}, c.oid, 'SELECT') AND pg_catalog.has_schema_privilege(${reader}, c.relnamespace, 'USAGE')`;
}

/** PostgreSQL refuses to plan it if the name means another table, whose code would run. */
function pageSql(
  { name, oid }: TableNow,
  { from, since, until }: UnreadRange,
  to: RowAddress,
  columns: string,
): string {
  const upTo =
    to === Infinity ? '' : ` AND t.ctid OPERATOR(pg_catalog.<) '${printAddress(to)}'::pg_catalog.tid`;
  return `SELECT t.ctid, ${columns} FROM ONLY ${name} t, ${stillNamed(name, oid)}
WHERE ${writtenPlainly} AND t.ctid OPERATOR(pg_catalog.>=) '${printAddress(from)}'::pg_catalog.tid${upTo}
AND ${endedSince(since, until)} ORDER BY t.ctid`;
}

/** In one line: in JSON text, line breaks occur only between tokens. */
function textOf(columns: Encoders, values: readonly (string | null)[]): string {
  let text = '';
  addRow(
    { add: (more) => void (text += more), addLarge: (value) => void (text += inside(value)) },
    columns,
    values,
    true,
  );
  return /[\r\n]/.test(text) ? text.replaceAll(/[\r\n]+/g, ' ') : text;
}

interface PageEnd {
  readonly fields: readonly Field[];
  readonly rows: readonly (readonly (string | null)[])[];
  readonly bytes: number;
  /** All rows of the statement have arrived. */
  readonly whole: boolean;
}

const pageName = 'headgate_page';

/**
 * One statement, of which only as many rows are requested as fill a page, in a transaction of its own. Between its parsing and its planning another
 * one is run, and must not fail.
 */
class PageRun extends StatementExecution {
  readonly ended: Promise<PageEnd>;
  overflowed = false;
  readonly #rowsMax: number;
  readonly #rows: (readonly (string | null)[])[] = [];
  #fields: readonly Field[] = [];
  #bytes = 0;
  /** What comes before the description of its rows is of the other statements. */
  #isDescribed = false;
  #whole = false;
  #synced = false;
  readonly #stopWatching: () => void;
  #resolve: (end: PageEnd) => void = () => {};
  #reject: (error: Error) => void = () => {};

  constructor(
    client: ClientBase,
    [before, sql]: readonly [string, string],
    rows: number,
    rowsMax: number,
    receivedBytesMax: number,
  ) {
    const whole = (text: string): Buffer[] => [parse(Buffer.from(text)), bind([]), execute()];
    super([
      // Each statement sees what was committed before it, whatever the database's default is.
      ...whole('BEGIN ISOLATION LEVEL READ COMMITTED'),
      closeStatement(pageName),
      parse(Buffer.from(sql), pageName),
      ...whole(before),
      bind([], pageName),
      describePortal(),
      execute(Math.min(rows, rowsMax)),
      flush(),
    ]);
    this.#rowsMax = rowsMax;
    const { stream } = (client as unknown as { connection: Connection }).connection;
    let received = 0;
    // A message is buffered until it is complete, and one value may have a gigabyte.
    const count = (chunk: Buffer): void => {
      received += chunk.length;
      if (received <= receivedBytesMax) return;
      this.overflowed = true;
      cutOff(client);
    };
    stream.on('data', count);
    this.#stopWatching = () => void stream.off('data', count);
    this.ended = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    client.query(this);
  }

  override handleRowDescription({ fields }: { readonly fields: readonly Field[] }): void {
    this.#fields = fields;
    this.#isDescribed = true;
  }

  override handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    if (!this.#isDescribed) return;
    this.#rows.push(fields);
    for (const value of fields) this.#bytes += value?.length ?? 0;
  }

  override handlePortalSuspended(connection: Connection): void {
    const room = limits.streamPageBytes - this.#bytes;
    if (room <= 0) return this.#sync(connection);
    const each = this.#bytes / this.#rows.length + 1;
    connection.stream.write(
      Buffer.concat([execute(Math.ceil(Math.min(this.#rowsMax, room / each))), flush()]),
    );
  }

  override handleCommandComplete(_message: { readonly text: string }, connection: Connection): void {
    if (!this.#isDescribed || this.#synced) return;
    this.#whole = true;
    this.#sync(connection);
  }

  handleReadyForQuery(): void {
    this.#stopWatching();
    this.giveBackMessages();
    this.#resolve({ fields: this.#fields, rows: this.#rows, bytes: this.#bytes, whole: this.#whole });
  }

  handleError(error: Error | DatabaseError, connection: Connection): void {
    this.#stopWatching();
    this.#sync(connection);
    this.#reject(error);
  }

  /** After an error the engine ignores everything else, and the transaction is still to be rolled back. */
  #sync(connection: Connection): void {
    if (this.#synced || connection.stream.destroyed) return;
    this.#synced = true;
    const commit = [parse(Buffer.from('COMMIT')), bind([]), execute()];
    connection.stream.write(Buffer.concat([closeStatement(pageName), ...commit, sync()]));
  }
}
