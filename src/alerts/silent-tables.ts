/**
 * Which tables have been silent for longer than usual. Takes a database that has the catalog, for how long this Headgate has listened (nobody
 * received what came before), and which silences it already knows; returns tables with their silence. The usual pause is the longest between two
 * minutes with a request, in the day before the last request. Only tables that are busy around the clock are judged: those whose day has no pause of
 * more than six hours, and at least ten such minutes. After a week of silence, a table no longer counts.
 */
import type { CatalogDatabases } from '../catalog/databases.ts';
import { limits } from '../config/limits.ts';
import type { Labels, SilentTable } from './rules.ts';

interface SilentRow {
  readonly schema_name: string;
  readonly table_name: string;
  readonly past: number;
  readonly pause: number;
}

/** Requests that a check refused may come from anybody. */
const silentSql = `
  select n.nspname::text as schema_name, c.relname::text as table_name, floor(s.past / 60)::int as past, floor(s.pause / 60)::int as pause
  from (
    select d.relation, count(*) as busy, extract(epoch from max(d.minute) - min(d.minute)) as span,
      max(extract(epoch from d.minute - d.before)) as pause, max(d.last_at) as last_at,
      extract(epoch from clock_timestamp() - max(d.last_at)) as past
    from (
      select m.relation, m.minute, m.last_at, max(m.minute) over (partition by m.relation) as last,
        lag(m.minute) over (partition by m.relation order by m.minute) as before
      from headgate.traffic_minute m where m.stored + m.refused + m.unavailable > 0
    ) as d
    where d.minute > d.last - interval '24 hours' and (d.before is null or d.before > d.last - interval '24 hours')
    group by d.relation
  ) as s
  join pg_class c on c.oid = s.relation join pg_namespace n on n.oid = c.relnamespace
  where s.busy >= 10 and s.span >= 72000 and s.pause <= 21600 and s.past > greatest(3 * s.pause, 900)
    and s.last_at > clock_timestamp() - interval '7 days'
  order by 1, 2 limit ${limits.alertConditionsMax}`;

/** null: not known at present. */
export async function silentTables(
  databases: Pick<CatalogDatabases, 'asked'>,
  database: string,
  upMinutes: number,
  isKnown: (labels: Labels) => boolean,
): Promise<readonly SilentTable[] | null> {
  const rows = await databases.asked<SilentRow>(database, silentSql).catch(() => null);
  if (rows === null) return null;
  return rows.flatMap(({ schema_name: schema, table_name: table, past, pause }) => {
    const labels = { database, schema, table };
    const heard = Math.min(past, upMinutes) > Math.max(3 * pause, 15);
    return heard || isKnown(labels) ? [{ labels, minutes: past, usualMinutes: pause }] : [];
  });
}
