/**
 * What a database that has the catalog is asked for the alerts: who follows its log and how far behind they are, which tables lack deliveries that were
 * announced, and which have been silent for longer than usual. Each answer is null if it is not known at present. Reads only.
 */
import type { Catalog } from '../catalog/catalog.ts';
import { limits } from '../config/limits.ts';
import type { ReplicationSlot, OpenGap, Labels, SilentTable } from './rules.ts';

interface SlotRow extends Omit<ReplicationSlot, 'labels'> {
  readonly slot: string;
}

const slotsSql = `
  select s.slot_name::text as slot, s.active, coalesce(s.wal_status = 'lost', false) as lost,
    coalesce(pg_wal_lsn_diff(l.at, s.restart_lsn), 0)::float8 as "heldBytes",
    case when k.setting = '-1' then ${limits.alertSlotBytesMax} else k.setting::float8 * 524288 end as "tooManyBytes",
    coalesce(pg_wal_lsn_diff(s.confirmed_flush_lsn, '0/0'), 0)::float8 as read
  from pg_replication_slots s
  cross join (select case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end as at) as l
  join pg_settings k on k.name = 'max_slot_wal_keep_size'
  where s.database = current_database() and not s.temporary
  order by 1 limit ${limits.alertConditionsMax}`;

/** The logical slots, except temporary ones. Too much is half of what the server lets a slot hold, or `alertSlotBytesMax` if that is unlimited. */
export async function slotsOf(
  databases: Pick<Catalog, 'asked'>,
  database: string,
): Promise<readonly ReplicationSlot[] | null> {
  const rows = await databases.asked<SlotRow>(database, slotsSql).catch(() => null);
  return rows?.map(({ slot, ...rest }) => ({ ...rest, labels: { database, slot } })) ?? null;
}

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

/** Tables with the option `reconcile`: deliveries of the last seven days that are missing for more than an hour, and a log that could not be read three times in a row. */
export async function openGaps(
  databases: Pick<Catalog, 'asked'>,
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

/**
 * `upMinutes`: for how long this Headgate has listened (nobody received what came before); `isKnown`: silences that were told. The usual pause is the longest
 * between two minutes with a request, in the day before the last request. Only tables that are busy around the clock are judged: those whose day has no
 * pause of more than six hours, and at least ten such minutes. After a week of silence, a table no longer counts.
 */
export async function silentTables(
  databases: Pick<Catalog, 'asked'>,
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
