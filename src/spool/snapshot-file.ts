/**
 * What was last known of the tables of a database, sealed, beside its spool: so that a start without the database knows whom
 * to believe. Takes rows of the catalog as text, gives them back with the moment at which they were true. What does not open, or
 * is from the future, is nothing. An older file put in its place tells its age. Rejects with the system's errors.
 */
import { join } from 'node:path';
import { reading } from './segment.ts';
import type { SpoolFiles } from './files.ts';

export interface KnownTables {
  /** headgate.home() of the database. */
  readonly home: string;
  /** ms since 1970 */
  readonly confirmedAtMs: number;
  /** Rows of the catalog, each as JSON. */
  readonly rows: readonly string[];
}

interface Seals {
  readonly seal: (plaintext: string, identity: string) => string;
  readonly open: (sealed: string, identity: string) => string;
}

const name = 'tables.sealed';
const identityOf = (database: string) => `spool:${database}`;

/** Whole or not at all. */
export async function writeKnown(
  files: SpoolFiles,
  folder: string,
  database: string,
  known: KnownTables,
  { seal }: Seals,
): Promise<void> {
  const next = join(folder, `${name}.next`);
  await files.remove(next).catch(() => {});
  const file = await files.create(next);
  try {
    await file.write([Buffer.from(seal(JSON.stringify(known), identityOf(database)))], 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await files.rename(next, join(folder, name));
  await files.syncFolder(folder);
}

/** null: there is nothing, or nothing that is believed. */
export async function readKnown(
  files: SpoolFiles,
  folder: string,
  database: string,
  nowMs: number,
  { open }: Seals,
): Promise<KnownTables | null> {
  if (!(await files.list(folder)).includes(name)) return null;
  const sealed = await reading(files, join(folder, name), async (file) => {
    const bytes = Buffer.alloc(await file.size());
    return bytes.toString('latin1', 0, await file.read(bytes, 0));
  });
  try {
    const known = JSON.parse(open(sealed, identityOf(database))) as KnownTables;
    return known.confirmedAtMs <= nowMs ? known : null;
  } catch {
    return null;
  }
}
