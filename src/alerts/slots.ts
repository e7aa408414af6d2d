/**
 * Who follows the log of a database, and how far behind they are. Takes a database that has the catalog; returns its logical slots, except temporary
 * ones. Too much is half of what the server lets a slot hold, or `alertSlotBytesMax` if that is unlimited.
 */
import type { CatalogDatabases } from '../catalog/databases.ts';
import { limits } from '../config/limits.ts';
import type { ReplicationSlot } from './rules.ts';

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

/** null: not known at present. */
export async function slotsOf(
  databases: Pick<CatalogDatabases, 'asked'>,
  database: string,
): Promise<readonly ReplicationSlot[] | null> {
  const rows = await databases.asked<SlotRow>(database, slotsSql).catch(() => null);
  return rows?.map(({ slot, ...rest }) => ({ ...rest, labels: { database, slot } })) ?? null;
}
