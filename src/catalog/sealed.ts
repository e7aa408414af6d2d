/**
 * What Headgate ensures about a catalog's sealed values before it reads it: that the master key is the one they were
 * sealed with, and that no check is left under the seal of an older version. Takes a connection and the seals; returns
 * why the values do not open, or null. Throws the engine's error.
 */
import { randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { pinned } from './queries.ts';
import { identities, oldChecksSql, sealOldCheck } from './seals.ts';
import type { OldCheckRow } from './seals.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { Sealing } from '../secrets/sealing.ts';

type Seals = Pick<Sealing, 'open' | 'seal'>;

interface KeyCheckRow {
  readonly seal_id: string;
  readonly sealed: string;
}

interface SampleRow extends KeyCheckRow {
  readonly what: 'secret' | 'check' | 'expression';
  readonly name: string;
}

const known = 'headgate';
const readKeyCheck = 'select k.seal_id, k.sealed from headgate.key_check k';
/** For catalogs from before headgate.key_check: any sealed values. */
const readSample = `
(select 'secret' as what, s.name, s.seal_id, s.sealed from headgate.secret s where octet_length(s.sealed) <= 131072
 order by s.altered_at desc nulls last limit 64)
union all
(select case w.seal_form when 2 then 'check' else 'expression' end, '', w.seal_id, w.sealed_expression
 from headgate.webhook_table w where w.sealed_expression is not null and octet_length(w.sealed_expression) <= 1048576 limit 64)`;

/** null: the sealed values of this database open, or there are none. */
export async function keyProblem(
  client: Client,
  database: string,
  sealing: Seals,
  keys: Pick<KeyRing, 'make'>,
): Promise<string | null> {
  const problem = `the sealed values of database ${JSON.stringify(database)} do not open: start Headgate with the master key that they were sealed with`;
  const [there] = await pinned<KeyCheckRow>(client, readKeyCheck);
  if (there !== undefined)
    return opens(sealing, there.sealed, identities.key(there.seal_id)) ? null : problem;
  const sample = await pinned<SampleRow>(client, readSample);
  const some = sample.some(({ what, name, seal_id: id, sealed }) =>
    opens(sealing, sealed, what === 'secret' ? identities.secret(name, id) : identities[what](id)),
  );
  if (sample.length > 0 && !some) return problem;
  // Nothing is sealed with another key.
  await keys.make();
  const id = randomUUID();
  const sealed = quoteLiteral(sealing.seal(known, identities.key(id)));
  try {
    await pinned(
      client,
      `insert into headgate.key_check (seal_id, sealed) values ('${id}', ${sealed}) on conflict do nothing`,
    );
  } catch (error) {
    // On a standby; the primary it follows does this.
    if (sqlstateOf(error) === '25006') return null;
    throw error;
  }
  const [row] = await pinned<KeyCheckRow>(client, readKeyCheck);
  return row !== undefined && opens(sealing, row.sealed, identities.key(row.seal_id)) ? null : problem;
}

/** Checks that do not open stay as they are, and their tables unusable: their key may come back. */
export async function sealOldChecks(client: Client, sealing: Seals): Promise<void> {
  for (let after = 0; ;) {
    const rows = await pinned<OldCheckRow>(client, oldChecksSql(after));
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.relation;
    const statements = rows.flatMap((row) => {
      try {
        return [sealOldCheck(row, randomUUID(), sealing)];
      } catch {
        return [];
      }
    });
    if (statements.length > 0) await pinned(client, ...statements);
  }
}

function opens(sealing: Seals, sealed: string, identity: string): boolean {
  try {
    sealing.open(sealed, identity);
    return true;
  } catch {
    return false;
  }
}
