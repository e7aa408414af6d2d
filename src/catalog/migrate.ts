/**
 * Brings the schema `headgate` of one database to the version this program knows: the numbered files beside this
 * one, each run once, in order, all in one transaction under an advisory lock, so that two Headgates starting at
 * once make one catalog. Refuses (throws CatalogError) when the catalog is of a later version.
 */
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { ClientBase } from 'pg';

export class CatalogError extends Error {
  override readonly name = 'CatalogError';
}

/** Any number will do as long as every Headgate takes the same: "headgate" in ASCII, as the bigint of its bytes. */
const advisoryLock = '7521418777024066661';

const folder = new URL('./migrations/', import.meta.url);

export interface Migration {
  readonly version: number;
  readonly sql: string;
}

export async function readMigrations(): Promise<readonly Migration[]> {
  const names = (await readdir(fileURLToPath(folder)))
    .filter((name) => /^\d{4}_.*\.sql$/.test(name))
    .toSorted();
  return Promise.all(
    names.map(async (name) => ({
      version: Number(name.slice(0, 4)),
      sql: await readFile(new URL(name, folder), 'utf8'),
    })),
  );
}

/** The version of this database's catalog; 0 when there is none. */
export async function catalogVersion(client: ClientBase): Promise<number> {
  const exists = await client.query<{ there: boolean }>(
    `select to_regclass('headgate.migration') is not null as there`,
  );
  if (exists.rows[0]?.there !== true) return 0;
  const { rows } = await client.query<{ version: number }>(
    'select coalesce(max(version), 0)::int as version from headgate.migration',
  );
  return rows[0]?.version ?? 0;
}

/** Gives the versions before and after. The client must not be in a transaction. */
export async function migrate(
  client: ClientBase,
  migrations: readonly Migration[],
): Promise<{ readonly from: number; readonly to: number }> {
  const known = Math.max(0, ...migrations.map((m) => m.version));
  const before = await catalogVersion(client);
  if (before > known) throw tooNew(before, known);
  if (before === known) return { from: before, to: before };
  await client.query('begin');
  try {
    // Whoever waited here finds the work done: the version is read again under the lock.
    await client.query(`select pg_advisory_xact_lock(${advisoryLock})`);
    await client.query('set local search_path = pg_catalog');
    await client.query('create schema if not exists headgate');
    await client.query(
      'create table if not exists headgate.migration (version int primary key, applied_at timestamptz not null default now())',
    );
    const from = await catalogVersion(client);
    if (from > known) throw tooNew(from, known);
    for (const { version, sql } of migrations) {
      if (version <= from) continue;
      await client.query(sql);
      await client.query('insert into headgate.migration (version) values ($1)', [version]);
    }
    await client.query('commit');
    return { from, to: known };
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

function tooNew(found: number, known: number): CatalogError {
  return new CatalogError(
    `the catalog in schema headgate is of version ${found}, this Headgate knows ${known}: start a newer Headgate`,
  );
}
