/**
 * Brings the schema `headgate` of one database to the version this program knows: the numbered files beside this
 * one (of one version there may be several, 0001_1_ to 0001_3_), each run once, in order, all in one transaction under a
 * lock of Headgate's own, so that two Headgates starting at once make one catalog. Refuses (throws CatalogError) when the
 * catalog is of a later version, when a right is missing, and when the schema is not Headgate's to trust.
 */
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { ClientBase } from 'pg';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { limits } from '../tables/limits.ts';
import { CatalogError, readRights, refuseMissing, refuseUntrusted } from './rights.ts';
import { pinned } from './reading.ts';

const folder = new URL('../catalog/migrations/', import.meta.url);

export interface Migration {
  readonly version: number;
  readonly sql: string;
}

export async function readMigrations(): Promise<readonly Migration[]> {
  const names = (await readdir(fileURLToPath(folder)))
    .filter((name) => /^\d{4}_.*\.sql$/.test(name))
    .toSorted();
  const parts = new Map<number, string>();
  for (const name of names) {
    const version = Number(name.slice(0, 4));
    parts.set(version, (parts.get(version) ?? '') + (await readFile(new URL(name, folder), 'utf8')));
  }
  return [...parts].map(([version, sql]) => ({ version, sql }));
}

/** The version of this database's catalog; 0 when there is none. Throws CatalogError where it is not to be trusted. */
export async function catalogVersion(client: ClientBase): Promise<number> {
  const rights = await readRights(client);
  refuseUntrusted(rights);
  if (rights.owner === null) return 0;
  refuseMissing(rights);
  const [found] = await pinned<{ version: number }>(
    client,
    'select coalesce(max(version), 0)::int as version from headgate.migration',
  );
  return found?.version ?? 0;
}

/** How often the schema is begun anew that another Headgate is making at the same moment. */
const attemptsMax = 3;

/** Gives the versions before and after. The client must not be in a transaction. */
export async function migrate(
  client: ClientBase,
  migrations: readonly Migration[],
): Promise<{ readonly from: number; readonly to: number }> {
  const known = Math.max(0, ...migrations.map((m) => m.version));
  const before = await catalogVersion(client);
  if (before > known) throw tooNew(before, known);
  if (before === known) return { from: before, to: before };
  for (let attempt = 1; ; attempt++) {
    await client.query('begin');
    try {
      const from = await migrateHere(client, migrations, known);
      await client.query('commit');
      return { from, to: known };
    } catch (error) {
      await client.query('rollback');
      // The schema or its first table was made by another Headgate in between.
      const met = ['42P06', '42P07', '23505'].includes(sqlstateOf(error) ?? '');
      if (!met || attempt === attemptsMax) throw error;
    }
  }
}

async function migrateHere(
  client: ClientBase,
  migrations: readonly Migration[],
  known: number,
): Promise<number> {
  await client.query(`select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)`);
  // Who reads the catalog in a long transaction holds the new version up, and that must not hold up everybody behind it.
  await client.query(`set local lock_timeout = ${limits.catalogLockMs}`);
  // The catalog is of this node alone. Where there is no Citus these are settings like any other that nobody reads.
  for (const setting of ['enable_ddl_propagation', 'enable_schema_based_sharding'])
    await client.query(`select set_config('citus.${setting}', 'off', true)`);
  const rights = await readRights(client);
  refuseMissing(rights);
  if (!rights.exists) await client.query('create schema headgate');
  if (rights.owner === null)
    await client.query(
      'create table headgate.migration (version int primary key, applied_at timestamptz not null default now())',
    );
  // Whoever waited here finds the work done: the version is read again under the lock.
  await client.query('lock table headgate.migration in share row exclusive mode');
  const from = await catalogVersion(client);
  if (from > known) throw tooNew(from, known);
  for (const { version, sql } of migrations) {
    if (version <= from) continue;
    await client.query(sql);
    await client.query('insert into headgate.migration (version) values ($1)', [version]);
  }
  const { rows } = await client.query<{ usable: boolean }>(
    `select has_schema_privilege('public', 'headgate', 'USAGE') as usable`,
  );
  if (rows[0]?.usable !== true)
    throw new CatalogError(
      'roles may not use the schema headgate: let its owner run GRANT USAGE ON SCHEMA headgate TO PUBLIC',
    );
  return from;
}

function tooNew(found: number, known: number): CatalogError {
  return new CatalogError(
    `the catalog in schema headgate is of version ${found}, this Headgate knows ${known}: start a newer Headgate`,
  );
}
