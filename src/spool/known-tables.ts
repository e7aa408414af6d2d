/**
 * What is known of the tables of a database, in `tables.sealed` of its folder, with the time at which it was true, so that a start without the
 * database knows which senders to accept. Counts as none if it cannot be opened, or is from the future. Takes what the catalog has confirmed;
 * tells the catalog. Rejects with the system's errors.
 */
import { chown, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { CatalogRow } from '../catalog/catalog-rows.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Settings } from '../config/settings.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { realFiles } from './files.ts';
import { reading } from './scan-records.ts';
import { databaseOf, spoolFolder } from './spool-folder.ts';

interface KnownTables {
  /** headgate.home() of the database. */
  readonly home: string;
  /** ms since 1970 */
  readonly confirmedAtMs: number;
  /** Rows of the catalog, each as JSON. */
  readonly rows: readonly string[];
}

interface KnownIn {
  readonly catalog: Catalog;
  readonly settings: Settings;
  readonly sealing: Sealing;
}

const name = 'tables.sealed';
const identityOf = (database: string) => `spool:${database}`;

/** Written as a whole, or not at all. */
export async function writeKnown(
  folder: string,
  database: string,
  known: KnownTables,
  { seal }: Sealing,
): Promise<void> {
  const next = join(folder, `${name}.next`);
  await realFiles.remove(next).catch(() => {});
  const file = await realFiles.create(next);
  try {
    // As the folder, if root writes what another user's Headgate reads.
    if (process.getuid?.() === 0) await chownAs(folder, next);
    await file.write([Buffer.from(seal(JSON.stringify(known), identityOf(database)))], 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await realFiles.rename(next, join(folder, name));
  await realFiles.syncFolder(folder);
}

async function chownAs(folder: string, path: string): Promise<void> {
  const { uid, gid } = await stat(folder);
  await chown(path, uid, gid);
}

/** null: there is no file, or none that is trusted. */
export async function readKnown(
  folder: string,
  database: string,
  { open }: Sealing,
): Promise<KnownTables | null> {
  if (!(await realFiles.list(folder)).includes(name)) return null;
  const sealed = await reading(realFiles, join(folder, name), async (file) => {
    const bytes = Buffer.alloc(await file.size());
    return bytes.toString('latin1', 0, await file.read(bytes, 0));
  });
  try {
    const known = JSON.parse(open(sealed, identityOf(database))) as KnownTables;
    return known.confirmedAtMs <= Date.now() ? known : null;
  } catch {
    return null;
  }
}

/** Tells the catalog, if it can still be trusted. `isLeft`: an earlier process has left requests, which need the database even if nothing else does. */
export function remember(
  { catalog, settings }: Pick<KnownIn, 'catalog' | 'settings'>,
  database: string,
  known: KnownTables | null,
  isLeft: boolean,
): void {
  const ageMs = known === null ? Infinity : Date.now() - known.confirmedAtMs;
  const isTrusted = ageMs <= settings.spoolTrustSeconds * 1_000;
  const rows = (isTrusted ? (known?.rows ?? []) : []).map((row) => JSON.parse(row) as CatalogRow);
  if (isTrusted || isLeft) catalog.remember(database, rows, ageMs);
}

/** For a process that keeps no requests itself: the tables of all databases to trust while these are unreachable. */
export async function rememberTables(parts: KnownIn): Promise<void> {
  const root = spoolFolder(parts.settings);
  for (const folder of await realFiles.list(root)) {
    const database = databaseOf(folder);
    const known = database === null ? null : await readKnown(join(root, folder), database, parts.sealing);
    if (database !== null && known !== null) remember(parts, database, known, false);
  }
}
