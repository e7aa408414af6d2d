/**
 * `headgate secrets rotate-key`: seals every secret and sealed expression of every database with a new master key.
 * Works while Headgates run on the same key file, and may be run again after an interruption. Takes Settings; reports
 * what it does; throws the reason if it cannot finish; the old key then stays where it was.
 */
import { openCommandEngine } from '../engine/command-engine.ts';
import { join } from 'node:path';
import { Client } from 'pg';
import { readRights, refuseUntrusted, UntrustedSchema } from '../catalog/rights.ts';
import { identities } from '../catalog/seals.ts';
import type { Engine } from '../engine/engine.ts';
import { hangUp } from '../engine/close-client.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { limits } from '../config/limits.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { MasterKey } from '../secrets/key-file.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { loadMasterKeys, parseMasterKeys } from '../secrets/key-ring.ts';
import { MasterKeyError, readKeyFile } from '../secrets/key-file.ts';
import { createSealing } from '../secrets/sealing.ts';
import { lockRotation, putNewKeyInFront, resealDatabase, retireOldKeys } from '../secrets/rotation.ts';
import { realFiles } from '../spool/files.ts';
import { inspectSpools } from '../spool/inspect.ts';
import type { Settings } from '../config/settings.ts';
import { spoolFolder } from '../spool/spool-folder.ts';

interface RotationReport {
  /** One line for the user. */
  say(line: string): void;
  /** One line about what needs attention. */
  warn(line: string): void;
}

const passesMax = 3;

type Connections = Pick<Engine, 'clientConfig' | 'close'>;

export async function rotateKey(settings: Settings, report: RotationReport): Promise<void> {
  const path = settings.masterKeyFile ?? join(settings.dataDir, 'master.key');
  const engine = await openCommandEngine(settings);
  try {
    const first = await connected(engine, home(settings, engine));
    try {
      const before = currentKeys(settings, path);
      if (!(await lockRotation(first, before)))
        throw new MasterKeyError('another rotation of the master key is running');
      if (
        currentKeys(settings, path)
          .at(-1)
          ?.id.equals(before.at(-1)?.id ?? Buffer.of()) !== true
      )
        throw new MasterKeyError('the master key was changed meanwhile; run this again');
      const ring = await keysFor(settings, path, report);
      const sealing = createSealing(ring);
      // Several passes, for values that were being sealed with the old key while their database was processed.
      for (let pass = 1; pass <= passesMax; pass++) {
        if ((await resealAll(first, engine, sealing, report)) === 0) break;
      }
      await refuseSpooled(settings, ring);
      await retire(settings, path, ring, report);
    } finally {
      await hangUp(first);
    }
  } finally {
    await engine.close();
  }
}

function currentKeys(settings: Settings, path: string): readonly MasterKey[] {
  return settings.masterKey === null
    ? readKeyFile(path)
    : parseMasterKeys(settings.masterKey, 'HEADGATE_MASTER_KEY').keys();
}

/** The database from which databases are listed: one that is not about to be dropped. */
function home(settings: Settings, engine: Connections & Partial<Engine>): string {
  return settings.databaseUrl === null ? 'postgres' : (engine.defaultDatabase ?? 'postgres');
}

async function connected(engine: Connections, database: string): Promise<Client> {
  const client = new Client({
    ...engine.clientConfig(database),
    application_name: 'headgate secrets rotate-key',
    connectionTimeoutMillis: limits.engineAnswerMs,
  });
  // A broken connection is reported by the pending query.
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** The ring with the new key in front. */
async function keysFor(settings: Settings, path: string, report: RotationReport): Promise<KeyRing> {
  if (settings.masterKey !== null) {
    const ring = parseMasterKeys(settings.masterKey, 'HEADGATE_MASTER_KEY');
    if (ring.keys().length > 1) return ring;
    throw new MasterKeyError(
      'HEADGATE_MASTER_KEY holds one key: set it to <new>,<old>, restart every Headgate with that, and run this again',
    );
  }
  if (await putNewKeyInFront(path)) report.say(`${path}: a new key was added in front of the old one`);
  else report.say(`${path}: the new key is already there; the rotation continues`);
  return loadMasterKeys(path);
}

async function resealAll(
  first: Client,
  engine: Connections,
  sealing: Sealing,
  report: RotationReport,
): Promise<number> {
  const { rows } = await first.query<{ name: string }>(
    `select datname as name from pg_catalog.pg_database
     where datallowconn and not datistemplate and pg_catalog.has_database_privilege(datname, 'CONNECT') order by 1`,
  );
  const failed: string[] = [];
  let resealed = 0;
  for (const { name } of rows) {
    const shown = JSON.stringify(name);
    try {
      const done = await resealOne(engine, name, sealing);
      if (done === null) continue;
      resealed += done.resealed;
      if (done.resealed > 0) report.say(`database ${shown}: ${done.resealed} sealed with the new key`);
      for (const what of done.unopened)
        report.warn(`database ${shown}: ${what} cannot be opened with any of the keys, and is left as it is`);
    } catch (error) {
      const sqlstate = sqlstateOf(error);
      // Dropped meanwhile, or closed to this role: Headgate does not serve such a database.
      if (sqlstate === '3D000') continue;
      if (sqlstate?.startsWith('28') === true)
        report.warn(`database ${shown} refuses the login, and is skipped`);
      // Headgate does not serve it, and whoever made the schema must not keep the old key in use.
      else if (error instanceof UntrustedSchema)
        report.warn(`database ${shown} is skipped: ${error.message}`);
      else failed.push(`database ${shown}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (failed.length === 0) return resealed;
  const advice = 'both keys stay in use: fix this and run it again';
  throw new MasterKeyError(`${failed.join('\n')}\n${advice}`);
}

async function resealOne(engine: Connections, database: string, sealing: Sealing) {
  const client = await connected(engine, database);
  try {
    const rights = await readRights(client);
    if (!rights.exists) return null;
    refuseUntrusted(rights);
    return await resealDatabase(client, sealing, identities);
  } finally {
    await hangUp(client);
  }
}

/** Spooled requests are never sealed again: they stay until they reach the database. */
async function refuseSpooled(settings: Settings, ring: KeyRing): Promise<void> {
  const folder = spoolFolder(settings);
  const [key] = ring.keys();
  const { segments } = await inspectSpools(realFiles, folder, ring);
  const old = segments.filter(({ header }) => header !== null && key?.id.equals(header.keyId) !== true);
  if (old.length === 0) return;
  throw new MasterKeyError(
    `${old.length} files of ${folder} are sealed with the old key: both keys stay in use; run this again once their requests are in the database`,
  );
}

async function retire(
  settings: Settings,
  path: string,
  ring: KeyRing,
  report: RotationReport,
): Promise<void> {
  if (settings.masterKey !== null) {
    report.say('done: remove the old key from HEADGATE_MASTER_KEY, and keep it for older backups');
    return;
  }
  const files = await retireOldKeys(path, ring);
  report.say(`done: ${path} holds only the new key`);
  for (const file of files)
    report.say(`${file}: the old key, for older backups; delete it when there are none`);
}
