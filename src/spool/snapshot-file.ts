/**
 * What was last known of the tables of a database, sealed, next to its spool: so that a start without the database knows which senders
 * to accept. Takes rows of the catalog as text, returns them with the time at which they were true. A file that cannot be opened, or
 * is from the future, counts as none. An older file put in its place tells its age. Rejects with the system's errors.
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

/** Written as a whole, or not at all. */
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

/** null: there is no file, or none that is trusted. */
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
