/**
 * Catalogs as created by Headgate's versions 1 to 12: until then every version was a file that ran after the previous ones, and
 * repeated what it changed. Those files are stored next to this one, compressed (decision 0153).
 */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import type { ClientBase } from 'pg';

export interface OldVersion {
  readonly version: number;
  readonly sql: string;
}

const file = new URL('../../../test/support/old-catalogs.json.br', import.meta.url);

export const oldVersions = JSON.parse(
  brotliDecompressSync(readFileSync(file)).toString(),
) as readonly OldVersion[];

/** Creates the schema `headgate` of this version. */
export async function makeOldCatalog(client: ClientBase, last: number): Promise<void> {
  await client.query(`begin; set local search_path = pg_catalog, pg_temp; create schema headgate;
    create table headgate.migration (version int primary key, applied_at timestamptz not null default now())`);
  for (const { version, sql } of oldVersions) {
    if (version > last) break;
    await client.query(`${sql}; insert into headgate.migration (version) values (${version})`);
  }
  await client.query('commit');
}
