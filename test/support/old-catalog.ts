/**
 * Catalogs that can be brought up to date, as their own Headgates created them: what migrate() ran, in one text, compressed. Version 27 is of commit
 * 1a358ccb, 118 of 4b49162a.
 */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import type { ClientBase } from 'pg';

export const oldVersions = [27, 118] as const;

/** Creates the schema `headgate` of that version. */
export async function makeOldCatalog(
  client: ClientBase,
  version: (typeof oldVersions)[number],
): Promise<void> {
  const file = new URL(`../../../test/support/old-catalog-${version}.sql.br`, import.meta.url);
  await client.query(`begin; set local search_path = pg_catalog, pg_temp; create schema headgate;
    create table headgate.migration (version int primary key, applied_at timestamptz not null default now())`);
  await client.query(brotliDecompressSync(readFileSync(file)).toString());
  await client.query('commit');
}
