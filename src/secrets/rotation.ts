/**
 * The rotation of the master key, in steps. Any step may be the last one that is completed: the state it leaves is
 * consistent, and running the rotation again continues from there.
 *
 *   1. the file contains [new, old]: from then on the new key seals, and both open
 *   2. every sealed value of a database is sealed with the first key, in one transaction; database by database
 *   3. each old key is put into its own file, for older backups; then the file contains [new]
 *
 * Takes key files and connections; throws MasterKeyError and the engine's errors. Never shows a key or a secret.
 */
import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';
import { limits } from '../config/limits.ts';
import type { KeyRing } from './key-ring.ts';
import type { MasterKey } from './key-file.ts';
import type { Sealing } from './sealing.ts';
import { MasterKeyError, newMasterKey, readKeyFile, replaceKeyFile } from './key-file.ts';
import { SealError } from './sealing.ts';

/** Step 1. False: the file already had several keys; a rotation that was interrupted, or prepared by hand, continues. */
export async function putNewKeyInFront(path: string): Promise<boolean> {
  const keys = readKeyFile(path);
  if (keys.length > 1) return false;
  await replaceKeyFile(path, [newMasterKey(), ...keys]);
  return true;
}

/** Step 3. Returns the files that the old keys are now in. */
export async function retireOldKeys(path: string, ring: KeyRing): Promise<readonly string[]> {
  const [first, ...old] = readKeyFile(path);
  if (ring.keys()[0]?.id.equals(first.id) !== true) {
    throw new MasterKeyError(`the master key file ${path} was changed meanwhile; run this again`);
  }
  const files: string[] = [];
  for (const key of old) {
    const file = `${path}.${key.id.toString('hex')}.old`;
    await replaceKeyFile(file, [key]);
    files.push(file);
  }
  await replaceKeyFile(path, [first]);
  return files;
}

export interface Identities {
  secret(name: string, sealId: string): string;
  check(sealId: string): string;
  answer(sealId: string): string;
  acme(sealId: string): string;
  key(sealId: string): string;
}

export interface Resealed {
  readonly resealed: number;
  /** The values that no key opens, by name; they are left as they are. */
  readonly unopened: readonly string[];
}

interface SealedRow {
  readonly what: 'secret' | 'check' | 'answer' | 'acme' | 'key';
  readonly id: string;
  readonly name: string;
  readonly seal_id: string;
  readonly sealed: string;
}

/** Requests continue meanwhile: the locks exclude statements that seal, and wait for those that have not committed yet. */
const lock =
  'lock table headgate.secret, headgate.webhook_table, headgate.webhook_answer in share row exclusive mode';
const lockAcme = 'lock table headgate.acme in share row exclusive mode';
const readSealed = `
  select 'secret' as what, s.id::text as id, s.name, s.seal_id::text, s.sealed from headgate.secret s
  union all
  select 'check', w.relation::oid::text, w.relation::text, w.seal_id::text, w.sealed_expression
  from headgate.webhook_table w where w.sealed_expression is not null
  union all
  select 'answer', a.seal_id::text, a.relation::text, a.seal_id::text, a.sealed from headgate.webhook_answer a
  union all
  select 'key', '', '', k.seal_id::text, k.sealed from headgate.key_check k`;
/** Older catalogs do not have this table. */
const readAcme = `
  select 'acme' as what, c.name as id, '' as name, c.seal_id::text, c.sealed from headgate.acme c where c.sealed is not null`;
const writeSealed = {
  secret: 'update headgate.secret set sealed = $2 where id = $1::uuid',
  check: 'update headgate.webhook_table set sealed_expression = $2 where relation = $1::oid',
  answer: 'update headgate.webhook_answer set sealed = $2 where seal_id = $1::uuid',
  acme: 'update headgate.acme set sealed = $2 where name = $1',
  key: `update headgate.key_check set sealed = $2 where $1 = ''`,
};

const shownAs = {
  secret: 'secret',
  check: 'VALIDATE of',
  answer: 'ANSWER of',
  acme: 'the certificate of the webhook listener',
  key: 'the check of the master key',
};

/** Step 2, for one database; null: it has no secrets. */
export async function resealDatabase(
  client: ClientBase,
  sealing: Sealing,
  identities: Identities,
): Promise<Resealed | null> {
  const { rows: found } = await client.query<{ there: boolean; acme: boolean }>(
    `select pg_catalog.to_regclass('headgate.secret') is not null as there, pg_catalog.to_regclass('headgate.acme') is not null as acme`,
  );
  const [has] = found;
  if (has?.there !== true) return null;
  await client.query('begin');
  try {
    // Nothing that others have made takes precedence over PostgreSQL's own, whatever is set for the database.
    await client.query('set local search_path = pg_catalog, pg_temp');
    await client.query(`set local lock_timeout = ${limits.rotationLockMs}`);
    await client.query(lock);
    if (has.acme) await client.query(lockAcme);
    const { rows } = await client.query<SealedRow>(
      has.acme ? `${readSealed} union all ${readAcme}` : readSealed,
    );
    const unopened: string[] = [];
    let resealed = 0;
    for (const row of rows) {
      const sealed = reseal(row, sealing, identities);
      if (sealed === null) unopened.push(shown(row));
      else if (sealed !== row.sealed) {
        await client.query(writeSealed[row.what], [row.id, sealed]);
        if (row.what !== 'key') resealed += 1;
      }
    }
    await client.query('commit');
    return { resealed, unopened };
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/** For the terminal. Some have no name. */
function shown({ what, name }: SealedRow): string {
  return name === '' ? shownAs[what] : `${shownAs[what]} ${JSON.stringify(name)}`;
}

/** null: no key opens it. */
function reseal(row: SealedRow, sealing: Sealing, identities: Identities): string | null {
  const identity =
    row.what === 'secret' ? identities.secret(row.name, row.seal_id) : identities[row.what](row.seal_id);
  let text: string;
  try {
    text = sealing.open(row.sealed, identity);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    return null;
  }
  return sealing.isCurrent(row.sealed) ? row.sealed : sealing.seal(text, identity);
}

/**
 * Held for as long as the connection exists, so that two rotations never run at the same time. Anybody may take an advisory lock,
 * but nobody knows the number of this one: it is derived from the oldest key, which stays the same until a rotation has ended.
 */
export async function lockRotation(client: ClientBase, keys: readonly MasterKey[]): Promise<boolean> {
  const digest = createHash('sha256')
    .update('headgate rotation\0')
    .update(keys.at(-1)?.key ?? '')
    .digest();
  const { rows } = await client.query<{ held: boolean }>(
    'select pg_catalog.pg_try_advisory_lock($1::pg_catalog.int8) as held',
    [String(digest.readBigInt64BE())],
  );
  return rows[0]?.held === true;
}
