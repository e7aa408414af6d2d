/**
 * Which tables with the option `reconcile` still lack deliveries that were announced more than an hour ago, in the last seven days, or whose log could not be
 * read three times in a row. Takes a database that has the catalog.
 */
import type { CatalogDatabases } from '../catalog/databases.ts';
import { limits } from '../config/limits.ts';
import type { OpenGap } from './rules.ts';

interface GapRow {
  readonly schema_name: string;
  readonly table_name: string;
  readonly missing: number;
  readonly problem: string | null;
}

const gapsSql = `
  select n.nspname::text as schema_name, c.relname::text as table_name, m.missing::int as missing, case when r.failures >= 3 then r.problem end as problem
  from headgate.reconciling r join pg_class c on c.oid = r.relation join pg_namespace n on n.oid = c.relnamespace
  cross join lateral (
    select count(*) as missing from headgate.announced a
    where a.relation = r.relation and a.came_at is null and a.announced_at < now() - interval '1 hour' and a.announced_at > now() - interval '7 days'
      and not headgate.has_come(a.relation, a.delivery, r.mark)) as m
  where m.missing > 0 or r.failures >= 3 and r.problem is not null
  order by 1, 2 limit ${limits.alertConditionsMax}`;

/** null: not known at present. */
export async function openGaps(
  databases: Pick<CatalogDatabases, 'asked'>,
  database: string,
): Promise<readonly OpenGap[] | null> {
  const rows = await databases.asked<GapRow>(database, gapsSql).catch(() => null);
  return (
    rows?.map(({ schema_name: schema, table_name: table, missing, problem }) => ({
      labels: { database, schema, table },
      missing,
      problem,
    })) ?? null
  );
}
