/**
 * Whether the master key is the one that a catalog's values were sealed with: a text that the first one has sealed says so. Takes a connected client;
 * returns why the values do not open, or null: they do, or there are none. Throws the engine's error.
 */
import { randomUUID } from 'node:crypto';
import type { ClientBase } from 'pg';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { pinned } from './queries.ts';
import { identities } from './seals.ts';

type CatalogSeals = Pick<Sealing, 'open' | 'seal'>;

interface KeyCheckRow {
  readonly seal_id: string;
  readonly sealed: string;
}

const known = 'headgate';
const readKeyCheck = 'select k.seal_id, k.sealed from headgate.key_check k';

export async function keyProblem(
  client: ClientBase,
  database: string,
  sealing: CatalogSeals,
  keys: Pick<KeyRing, 'make'>,
): Promise<string | null> {
  let [row] = await pinned<KeyCheckRow>(client, readKeyCheck);
  if (row === undefined) {
    await keys.make();
    const id = randomUUID();
    const sealed = quoteLiteral(sealing.seal(known, identities.key(id)));
    try {
      const insert = `insert into headgate.key_check (seal_id, sealed) values ('${id}', ${sealed}) on conflict do nothing`;
      [row] = await pinned<KeyCheckRow>(client, insert, readKeyCheck);
    } catch (error) {
      // On a standby; the primary it follows does this.
      if (sqlstateOf(error) === '25006') return null;
      throw error;
    }
  }
  if (row !== undefined && opens(sealing, row.sealed, identities.key(row.seal_id))) return null;
  return `the sealed values of database ${JSON.stringify(database)} do not open: start Headgate with the master key that they were sealed with: the file master.key of the data directory of then, or HEADGATE_MASTER_KEY`;
}

function opens(sealing: CatalogSeals, sealed: string, identity: string): boolean {
  try {
    sealing.open(sealed, identity);
    return true;
  } catch {
    return false;
  }
}
