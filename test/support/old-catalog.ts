/**
 * The oldest catalog that can be brought up to date, version 27, as commit 1a358ccb created it: what its migrate() ran, in one text, compressed.
 */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import type { ClientBase } from 'pg';

const file = new URL('../../../test/support/old-catalog.sql.br', import.meta.url);

export const oldVersion = 27;

/** Creates the schema `headgate` of that version. */
export async function makeOldCatalog(client: ClientBase): Promise<void> {
  await client.query(`begin; set local search_path = pg_catalog, pg_temp; create schema headgate;
    create table headgate.migration (version int primary key, applied_at timestamptz not null default now())`);
  await client.query(brotliDecompressSync(readFileSync(file)).toString());
  await client.query('commit');
}
