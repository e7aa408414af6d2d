/**
 * `headgate tail` of a Headgate elsewhere, through its database: the rows of webhook tables as they are committed, and the requests that were
 * refused and kept. Shows the tables of the role in the connection string. Runs until interrupted; returns the exit status.
 *
 * For a Headgate on this machine it can show more: every answer as it is given (console-commands.ts).
 */
import { allBelow, endedSince, isSame } from '../kit/position.ts';
import type { Ended } from '../kit/position.ts';
import { PlainError } from '../kit/plain-error.ts';
import { stillNamed } from '../kit/sql-text.ts';
import { jsonLine, painted, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { limits } from '../config/limits.ts';
import { earlierOf, followingText, requestText } from './console-commands.ts';
import type { Earlier, TailOptions } from './console-commands.ts';
import { Following, unreadText } from './follow-rows.ts';
import type { FollowedRow } from './follow-rows.ts';
import { interrupted } from './print.ts';
import { othersCode } from './read-relation.ts';
import { rest, staying, utcText, within } from './session.ts';
import type { CommandSession, Texts } from './session.ts';
import { perhaps, requestOf } from './stored-requests.ts';
import type { StoredTable } from './stored-requests.ts';
import type { Where } from './find-headgate.ts';

export async function tailElsewhere(where: Where, options: TailOptions, io: CommandIo): Promise<number> {
  const { table, failed } = options;
  const wanted = options.lines !== undefined || options.since !== undefined ? earlierOf(options) : null;
  const following = new Following(
    table === undefined ? [] : [table],
    options.trustOwner === true,
    async () => {},
  );
  let refusedSince: Ended | null = null;
  await staying(where.dsn, 'tail', io, async (session, begin) => {
    const { tables, unread, isAnother } = await following.begin(session);
    if (isAnother) refusedSince = null;
    refusedSince ??= (await session.transactions(null)).ended;
    if (!begin()) io.note('connected again\n');
    else {
      io.note(followingText(options) + unreadText(unread));
      if (wanted !== null) {
        const { since } = following;
        const until = { rows: since === null ? refusedSince : allBelow(since), refused: refusedSince };
        await showEarlier(session, tables, wanted, until, options, io);
      }
    }
    while (!io.signal.aborted) {
      const began = io.elapsed();
      let shown = 0;
      if (failed !== true)
        for await (const row of following.look(session)) {
          showStored(row, new Date(io.clock()).toISOString(), options, io);
          shown += 1;
          if (io.signal.aborted) return;
        }
      const until: Ended = (await session.transactions(refusedSince)).ended;
      for (const row of await refusedBetween(session, table, refusedSince, until))
        showRefused(row, options, io);
      refusedSince = until;
      const tookMs = shown > 0 ? 0 : io.elapsed() - began;
      await rest(io, Math.max(limits.listenPauseMs, tookMs * limits.listenRestTimes));
    }
  });
  return interrupted;
}

/** The last requests before the positions from which they are followed, oldest first. */
async function showEarlier(
  session: CommandSession,
  tables: readonly StoredTable[],
  { lines, seconds }: Earlier,
  until: { readonly rows: Ended; readonly refused: Ended },
  options: TailOptions,
  io: CommandIo,
): Promise<void> {
  const found: { readonly at: string; readonly show: () => void }[] = [];
  const since = (column: string): string =>
    seconds === null ? 'true' : `${column} >= pg_catalog.now() - interval '${seconds} seconds'`;
  for (const table of options.failed === true ? [] : tables) {
    const { arrival } = table;
    if (arrival === null) {
      io.note(
        `${plain(table.table)} keeps no time of arrival (INCLUDE TIMESTAMP AS column): its earlier rows are not shown\n`,
      );
      continue;
    }
    // Of its partitions, too.
    const others = await othersCode(session, table.oid, options);
    if (others !== null) {
      io.note(`${plain(table.table)}: its earlier rows are not shown: ${others}\n`);
      continue;
    }
    const rows = await session.rows(
      `SELECT ${utcText(arrival)} AS at, ${table.request} FROM ${table.from} t, ${stillNamed(table.from, table.oid)}
WHERE ${arrival} IS NOT NULL AND ${endedSince(null, until.rows)} AND ${since(arrival)} ORDER BY ${arrival} DESC LIMIT ${lines}`,
    );
    for (const { at, ...row } of rows) {
      const request = requestOf(row);
      found.push({ at: at ?? '', show: () => showStored({ table, request }, at ?? '', options, io) });
    }
  }
  const refused = await refusedRows(
    session,
    options.table,
    `${endedSince(null, until.refused)} AND ${since('received_at')}`,
    `t.id DESC LIMIT ${lines}`,
  );
  for (const row of refused) found.push({ at: row['at'] ?? '', show: () => showRefused(row, options, io) });
  for (const { show } of lines === 0 ? [] : found.toSorted(byTime).slice(-lines)) show();
}

const byTime = (a: { readonly at: string }, b: { readonly at: string }): number =>
  a.at < b.at ? -1 : Number(a.at > b.at);

/** A request that is retried does not count as new. */
async function refusedBetween(
  session: CommandSession,
  table: string | undefined,
  since: Ended,
  until: Ended,
): Promise<Texts[]> {
  if (isSame(since, until)) return [];
  return refusedRows(session, table, endedSince(since, until), `t.id LIMIT ${limits.tailRingMax}`);
}

async function refusedRows(
  session: CommandSession,
  table: string | undefined,
  condition: string,
  order: string,
): Promise<Texts[]> {
  return session.rows(
    `SELECT t.id::text AS id, ${utcText('received_at')} AS at, current_database()::text AS database, schema_name AS schema,
  table_name AS "table", status::text AS status, code, reason, method, target, headers::text AS headers, headers_masked::text AS masked,
  coalesce(body_bytes, 0)::text AS bytes, encode(body, 'base64') AS body, remote_address AS address
FROM headgate.rejected_requests t WHERE ${condition} AND retry_asked_at IS NULL
  AND ($1::oid IS NULL OR relation = $1::oid) ORDER BY ${order}`,
    [table === undefined ? null : await session.relation(table)],
  );
}

/** Requests to a table that does not exist are nobody's, and are not shown: a wrong name would wait for ever. */
export async function refuseMissing(where: Where, table: string): Promise<void> {
  // One of another database, which this connection does not see.
  if (table.split('.').length > 2) return;
  // Where the SQL port asks for a password, nobody knows.
  const near = await within(where.dsn, 'tail', async (session) =>
    (await session.relation(table)) === null ? perhaps(session, table) : null,
  ).catch(() => null);
  if (near !== null)
    throw new PlainError(
      `there is no table ${plain(table)}${near === '' ? '; of' : `${near} Of`} another database: database.schema.table`,
    );
}

/** `at`: when it arrived or, if that is not kept, when it was seen. */
function showStored(
  { table, request }: FollowedRow,
  at: string,
  { json, body }: TailOptions,
  io: CommandIo,
): void {
  const { database, schema, table: name } = table;
  const { method, query, headers, body: bytes } = request;
  const target = query === null ? '' : `?${query}`;
  const held = {
    method,
    target,
    headers,
    masked: {},
    body: bytes.toString('base64'),
    bodyBytes: bytes.length,
  };
  if (json === true) {
    const line = { at, database, schema, table: name, code: 'committed', bytes: bytes.length };
    return io.print(jsonLine(body === true ? { ...line, request: held } : line));
  }
  const line = `${at.slice(11, 23)}  ${painted(io, 'good', 'stored')}  ${plain(`${database}.${schema}.${name}`)}  ${bytes.length} B\n`;
  io.print(body === true ? `${line}${requestText(held)}` : line);
}

function showRefused(row: Texts, { json, body }: TailOptions, io: CommandIo): void {
  const text = (name: string): string => row[name] ?? '';
  const { id, at, database, schema, table, code, reason, address } = row;
  const held = {
    method: text('method'),
    target: text('target'),
    headers: JSON.parse(text('headers')) as Record<string, string>,
    masked: JSON.parse(row['masked'] ?? '{}') as Record<string, string>,
    body: text('body'),
    bodyBytes: Number(row['bytes']),
  };
  const [status, bytes] = [Number(row['status']), held.bodyBytes];
  if (json === true) {
    const line = { id: Number(id), at, database, schema, table, status, code, reason, bytes, address };
    return io.print(jsonLine(body === true ? { ...line, request: held } : line));
  }
  const where = plain(`${text('database')}.${text('schema')}.${text('table')}`);
  const line = `${text('at').slice(11, 23)}  ${painted(io, 'bad', String(status))}  ${where}  ${text('code')}  ${bytes} B  ${plain(text('address'))}  refused request ${text('id')}: ${plain(text('reason'))}\n`;
  io.print(body === true ? `${line}${requestText(held)}` : line);
}
