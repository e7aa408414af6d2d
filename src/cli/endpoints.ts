/** `headgate endpoints`: the webhook tables of a database that the role owns, and the URL of each. */
import { tableOf } from './print.ts';
import { jsonLine } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { within } from './session.ts';
import { webhookUrl } from './find-headgate.ts';
import type { Where } from './find-headgate.ts';

const list = `SELECT current_database()::text AS database, n.nspname::text AS schema, c.relname::text AS "table",
  w.expression IS NOT NULL AS checked,
  (SELECT string_agg(s.name, ', ' ORDER BY b.position) FROM headgate.webhook_table_secret b JOIN headgate.secret s ON s.id = b.secret_id
    WHERE b.relation = w.relation) AS secrets,
  greatest(c.reltuples::bigint, pg_stat_get_live_tuples(c.oid))::text AS rows,
  (SELECT count(*) FROM headgate.rejected_requests q WHERE q.relation = w.relation AND q.received_at > now() - interval '1 day')::text AS refused
FROM headgate.webhook_table w
JOIN pg_catalog.pg_class c ON c.oid = w.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE headgate.owns_table(w.relation)
ORDER BY n.nspname, c.relname`;

export async function endpointsCommand(where: Where, json: boolean, io: CommandIo): Promise<number> {
  const rows = await within(where.dsn, 'endpoints', (session) => session.rows(list));
  const shown = rows.map(({ database, schema, table, checked, secrets, rows: count, refused }) => {
    const url = webhookUrl({ ...where, url: where.url ?? '' }, database ?? '', schema ?? '', table ?? '');
    const check = checked !== 't' ? 'none: anybody can write' : (secrets ?? 'without a secret');
    const named = { schema: schema ?? '', table: table ?? '', url };
    return { ...named, validate: check, 'rows, about': Number(count), 'refused, 24 h': Number(refused) };
  });
  if (json)
    for (const { 'rows, about': about, 'refused, 24 h': refused, ...row } of shown)
      io.print(jsonLine({ ...row, rows: about, refused }));
  else if (shown.length === 0) io.note('you own no webhook table in this database\n');
  else io.print(tableOf(shown, ['schema', 'table', 'validate', 'rows, about', 'refused, 24 h', 'url']));
  return 0;
}
