import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { within } from './within.ts';

/** The spool of a database is opened after the statement that makes its first table that spools: this waits until that table can spool. */
export async function spoolOpened(dataDir: string, database: string): Promise<void> {
  const known = join(dataDir, 'spool', database, 'tables.sealed');
  await within(15_000, async () => assert(existsSync(known), known));
}
