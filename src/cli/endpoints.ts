/** `headgate endpoints`: the webhook tables, of one database or of all that Headgate serves, that the role owns or may look at, and the URL of each. */
import { tableOf } from './print.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { othersCodeSql } from '../relations/owner-code.ts';
import { relationName, stillNamed } from '../kit/sql-text.ts';
import { rowsEstimate } from '../console/statements.ts';
import { limits } from '../config/limits.ts';
import { inDatabases } from './databases.ts';
import type { CommandSession, Texts } from './session.ts';
import { calledUrl } from './find-headgate.ts';
import type { Where } from './find-headgate.ts';

const list = `SELECT current_database()::text AS database, n.nspname::text AS schema, c.relname::text AS "table", c.oid::text AS oid,
  w.expression IS NOT NULL AS checked,
  (SELECT string_agg(s.name, ', ' ORDER BY b.position) FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id
    WHERE b.relation = w.relation) AS secrets,
  ${rowsEstimate('c')}::text AS rows,
  (SELECT count(*) FROM headgate.rejected_requests q WHERE q.relation = w.relation AND q.received_at > now() - interval '1 day')::text AS refused,
  ((SELECT count(*) = 4 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attname IN ('done_at', 'attempts', 'run_after', 'last_error'))
    AND NOT EXISTS (${othersCodeSql('c.oid')}))::text AS leased,
  e.log_problem AS problem, e.missing::text AS missing
FROM headgate.webhook_table w
JOIN pg_catalog.pg_class c ON c.oid = w.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN headgate.endpoint_states e ON e.relation = w.relation
WHERE headgate.sees_table(w.relation)
ORDER BY n.nspname, c.relname`;

/** Of a table with the columns of docs/workers.md: rows that nobody has done, and those of them that have had all their attempts. */
const work = (relation: string, oid: string): string => `SELECT count(*)::text AS open,
  (count(*) FILTER (WHERE attempts >= ${limits.leaseAttempts} AND run_after <= now()))::text AS dead
FROM ${relation}, ${stillNamed(relation, oid)} WHERE done_at IS NULL`;

/**
 * A table that looks like one of them and is none has no such counts, and nor has one that cannot be read, or whose owner could not act as the
 * session's role: counting its rows runs code of its owner.
 */
async function workOf(
  session: CommandSession,
  { oid, schema, table, leased }: Texts,
): Promise<Readonly<Record<string, number>>> {
  if (leased !== 'true') return {};
  const relation = relationName({ schema: schema ?? '', table: table ?? '' });
  const [found] = await session.rows(work(relation, oid ?? '')).catch(() => []);
  return found === undefined ? {} : { open: Number(found['open']), dead: Number(found['dead']) };
}

/** Of a table with the option `reconcile`, for its owner: why its sender's log is not read, and what of the last 7 days is missing. */
function logOf({ problem, missing }: Texts): Readonly<Record<string, string | number | null>> {
  return missing === null ? {} : { log_problem: problem ?? null, log_missing: Number(missing) };
}

function logText({ problem, missing }: Texts): string {
  if (missing === null) return '';
  if (problem !== null) return `not read: ${problem ?? ''}`;
  return missing === '0' ? 'complete' : `${missing ?? ''} missing`;
}

export async function endpointsCommand(
  where: Where,
  which: 'one' | 'all',
  json: boolean,
  io: CommandIo,
): Promise<number> {
  const looked = await inDatabases(where, 'endpoints', which, async (session) => {
    const found = await session.rows(list);
    const all: { readonly row: Texts; readonly jobs: Readonly<Record<string, number>> }[] = [];
    for (const row of found) all.push({ row, jobs: await workOf(session, row) });
    return all;
  });
  for (const { database, problem } of looked)
    if (problem !== null) io.note(plain(`database ${database}: ${problem.split('\n', 1)[0] ?? ''}`) + '\n');
  const rows = looked.flatMap(({ found }) => found ?? []);
  const shown = rows.map(({ row, jobs }) => {
    const { database, schema, table, checked, secrets, rows: count, refused } = row;
    const url = calledUrl({ ...where, url: where.url ?? '' }, database ?? '', schema ?? '', table ?? '');
    const check = checked !== 't' ? 'none: anybody can write' : (secrets ?? 'without a secret');
    const named = { database: database ?? '', schema: schema ?? '', table: table ?? '', url };
    return {
      ...named,
      validate: check,
      'rows, about': count === null ? null : Number(count),
      'refused, 24 h': Number(refused),
      ...jobs,
      ...(json ? logOf(row) : { log: logText(row) }),
    };
  });
  const worked = rows.some(({ jobs }) => 'open' in jobs);
  if (json)
    for (const { 'rows, about': about, 'refused, 24 h': refused, ...row } of shown)
      io.print(jsonLine({ ...row, rows: about, refused }));
  else if (shown.length === 0)
    io.note(
      `you own no webhook table in ${which === 'one' ? 'this database' : 'any database'}, and may look at none\n`,
    );
  else {
    const work = worked ? ['open', 'dead'] : [];
    const log = rows.some(({ row }) => row['missing'] !== null) ? ['log'] : [];
    const several = looked.length > 1 ? ['database'] : [];
    const columns = [
      ...several,
      'schema',
      'table',
      'validate',
      'rows, about',
      'refused, 24 h',
      ...work,
      ...log,
      'url',
    ];
    io.print(tableOf(shown, columns, io, 'url'));
  }
  return 0;
}
