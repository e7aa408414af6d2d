/**
 * Moves what Headgate itself keeps in a database: which tables are webhook tables, their checks and secrets (still sealed), and
 * refused requests. Takes both sides, the target with a transaction open; throws MoveError if the versions differ.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { migrate, readMigrations } from '../../catalog/migrate.ts';
import { catalogVersion } from '../../catalog/rights.ts';
import { identities } from '../../catalog/seals.ts';
import { quoteIdentifier } from '../../kit/sql-text.ts';
import type { KeyRing } from '../../secrets/key-ring.ts';
import type { Sealing } from '../../secrets/sealing.ts';
import { realFiles } from '../../spool/files.ts';
import { inspectSpools } from '../../spool/inspect.ts';
import { readKnown, writeKnown } from '../../spool/known-tables.ts';
import { folderOf } from '../../spool/spool-folder.ts';
import { pipeRows } from './pipe.ts';
import type { MovedRows, MovedTable, Sides } from './rows.ts';
import { MoveError } from './statements.ts';

/** In the order of their references. */
const relations = [
  'key_check',
  'secret',
  'secret_form',
  'secret_learning',
  'webhook_table',
  'webhook_table_secret',
  'webhook_into',
  'webhook_reconcile',
  'reconciling',
  'announced',
  'past_window',
  'webhook_private',
  'webhook_answer',
  'webhook_answer_secret',
  'token',
  'token_table',
  'ignored_keys',
  'traffic_minute',
  'traffic_hour',
  'traffic_since',
  'traffic_total',
  'rejected_requests',
  'claimer',
  'tombstone',
  'moved_table',
];

/** The ids of deliveries that these tables have stored, which may be many more than their rows. */
export const deliveriesOf = (tables: readonly MovedTable[]): MovedRows => ({
  name: 'headgate.delivery',
  columns: ['relation', 'id', 'stored_at', 'claimed_by', 'body'],
  key: ['relation', 'id'],
  only: `t.relation IN (${['0', ...tables.map(({ oid }) => oid)].join()})`,
});

/** Creates the schema `headgate` in the target, of the source's version, and empty. */
export async function prepareHeadgate({ source, target }: Sides): Promise<void> {
  const migrations = readMigrations();
  const here = await catalogVersion(source);
  if (here === 0) throw new MoveError('the source has no schema headgate: Headgate has never served it');
  if (here !== migrations.version) {
    throw new MoveError(
      `the schema headgate of the source has version ${here}, this Headgate needs ${migrations.version}: start this Headgate on the source once, and run it again`,
    );
  }
  await migrate(target, migrations);
  const { rows } = await target.query<{ n: number }>('SELECT count(*)::int AS n FROM headgate.webhook_table');
  if ((rows[0]?.n ?? 0) > 0) throw new MoveError('the target already has webhook tables');
  await target.query('DELETE FROM headgate.key_check');
}

export async function copyHeadgate({ source, target }: Sides): Promise<void> {
  for (const name of relations) {
    const { rows } = await source.query<{ name: string }>(
      `SELECT a.attname AS name FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped
         AND a.attgenerated = '' ORDER BY a.attnum`,
      [`headgate.${name}`],
    );
    const columns = rows.map((it) => quoteIdentifier(it.name)).join(', ');
    await pipeRows(
      source,
      `COPY headgate.${name} (${columns}) TO STDOUT`,
      target,
      `COPY headgate.${name} (${columns}) FROM STDIN`,
    );
  }
  // A secret whose owner does not exist in the target, or is the role that Headgate uses in the source, goes to Headgate's role in the
  // target.
  const { rows } = await source.query<{ role: string }>('SELECT current_user::text AS role');
  await target.query(
    `UPDATE headgate.secret SET owner = current_user
     WHERE owner = $1 OR owner IS NOT NULL AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = owner)`,
    [rows[0]?.role],
  );
  // A role's oid differs between servers.
  await target.query(
    'UPDATE headgate.secret SET owner_oid = (SELECT r.oid FROM pg_roles r WHERE r.rolname = owner)',
  );
  // A token whose role does not exist gets no owner: with another owner it might be worth more.
  await target.query(
    `UPDATE headgate.token t SET owner = r.rolname, owner_oid = r.oid
     FROM headgate.token same LEFT JOIN pg_roles r ON r.rolname = CASE same.owner WHEN $1 THEN current_user ELSE same.owner END
     WHERE t.id = same.id`,
    [rows[0]?.role],
  );
  await target.query(`UPDATE headgate.webhook_table SET options = options - 'moved'`);
  await copyPositions({ source, target });
  await target.query('CALL headgate.place_restored()');
  await target.query('CALL headgate.place_totals()');
  await target.query(
    `SELECT setval(pg_get_serial_sequence('headgate.rejected_requests', 'id'), greatest(max(id), 1), max(id) IS NOT NULL)
     FROM headgate.rejected_requests`,
  );
}

/** How far spools have come, so that what they still hold is handed over to the target. */
async function copyPositions({ source, target }: Sides): Promise<void> {
  const { rows: tables } = await source.query<{ home: string; oid: number; name: string }>(
    'SELECT headgate.home() AS home, w.relation::oid AS oid, w.relation::text AS name FROM headgate.webhook_table w',
  );
  await target.query(
    `INSERT INTO headgate.moved_table (home, oid, relation)
     SELECT t.home, t.oid, t.name::regclass FROM jsonb_to_recordset($1) AS t (home text, oid oid, name text)`,
    [JSON.stringify(tables)],
  );
  const { rows: positions } = await source.query<{ spool: string; name: string; position: string }>(
    `SELECT p.spool::text, w.relation::text AS name, p.position::text
     FROM headgate.spool_position p JOIN headgate.webhook_table w ON w.relation = p.relation`,
  );
  await target.query(
    `INSERT INTO headgate.spool_position (spool, relation, position)
     SELECT p.spool, p.name::regclass, p.position FROM jsonb_to_recordset($1) AS p (spool uuid, name text, position bigint)`,
    [JSON.stringify(positions)],
  );
}

/** Says in the source that its tables are moved: what Headgate keeps on its disk is handed over, and it keeps nothing more. */
export async function markMoved(source: Sides['source'], isMoved: boolean): Promise<void> {
  await source.query(
    isMoved
      ? `UPDATE headgate.webhook_table SET options = options || '{"moved": "true"}' WHERE NOT options ? 'moved'`
      : `UPDATE headgate.webhook_table SET options = options - 'moved' WHERE options ? 'moved'`,
  );
}

/** How many requests a folder keeps for the source that are not there yet. */
export async function waitingIn(folder: string, source: Sides['source'], ring: KeyRing): Promise<number> {
  if (!existsSync(folder)) return 0;
  const { rows } = await source.query<{ home: string; positions: Record<string, string> | null }>(
    `SELECT headgate.home() AS home, (SELECT jsonb_object_agg(replace(p.spool::text, '-', '') || '/' || p.relation, p.position::text)
       FROM headgate.spool_position p) AS positions`,
  );
  const { home, positions } = rows[0] ?? {};
  let waiting = 0;
  await inspectSpools(realFiles, folder, ring, ({ spool, oid, sequence, table }) => {
    if (table?.home === home && sequence > BigInt(positions?.[`${spool}/${oid}`] ?? 0)) waiting += 1;
  });
  return waiting;
}

/** A Headgate that starts on this folder while the source is unreachable is to keep nothing for its tables. */
export async function forgetTables(
  folder: string,
  database: string,
  source: Sides['source'],
  sealing: Sealing,
): Promise<void> {
  const own = join(folder, folderOf(database));
  if (!existsSync(own)) return;
  const known = await readKnown(own, database, sealing);
  const { rows } = await source.query<{ home: string }>('SELECT headgate.home() AS home');
  if (known === null || known.rows.length === 0 || known.home !== rows[0]?.home) return;
  await writeKnown(own, database, { ...known, rows: [] }, sealing);
}

/** The names of the sealed values that this key does not open; sealed content is never shown. */
export async function unopened({ source }: Sides, sealing: Sealing): Promise<string[]> {
  const { rows } = await source.query<{ what: string; name: string; seal_id: string; sealed: string }>(`
    SELECT 'secret' AS what, s.name, s.seal_id::text, s.sealed FROM headgate.secret s
    UNION ALL SELECT 'VALIDATE', w.relation::text, w.seal_id::text, w.sealed_expression
    FROM headgate.webhook_table w WHERE w.sealed_expression IS NOT NULL
    UNION ALL SELECT 'ANSWER', a.relation::text, a.seal_id::text, a.sealed FROM headgate.webhook_answer a`);
  return rows
    .filter(({ what, name, seal_id: sealId, sealed }) => {
      const identity =
        what === 'secret'
          ? identities.secret(name, sealId)
          : identities[what === 'ANSWER' ? 'answer' : 'check'](sealId);
      try {
        sealing.open(sealed, identity);
        return false;
      } catch {
        return true;
      }
    })
    .map(({ what, name }) => `${what === 'secret' ? 'secret' : `${what} of`} ${JSON.stringify(name)}`);
}
