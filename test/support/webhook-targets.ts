/** Webhook tables as Targets, made by the snapshot without the catalog's connection: for tests of the results of DDL. */
import type { ClientBase } from 'pg';
import { readSizes, readTables } from '../../src/catalog/queries.ts';
import { nextSnapshot } from '../../src/catalog/target.ts';
import { emptySnapshot } from '../../src/catalog/database-tables.ts';
import type { Snapshot } from '../../src/catalog/database-tables.ts';
import type { Target } from '../../src/types/target.ts';
import { noKeySets } from './no-key-sets.ts';

export async function readSnapshot(client: ClientBase, before: Snapshot = emptySnapshot): Promise<Snapshot> {
  const path = await client.query<{ path: string }>(`select current_setting('search_path') as path`);
  const sizes = (await readSizes(client)).filter(({ fits }) => fits);
  const read = await readTables(
    client,
    sizes.map(({ relation }) => relation),
  );
  const rows = read.rows.toSorted((a, b) => a.relation - b.relation);
  // Inside a transaction the path would stay as the query has set it.
  await client.query(`select set_config('search_path', $1, true)`, [path.rows[0]?.path]);
  return nextSnapshot(
    before,
    'postgres',
    { rows, unread: [] },
    {
      open: () => '',
      keySets: noKeySets,
      verifier: undefined,
      publicUrl: null,
      intoHosts: ['rw:4566'],
      compile: () => ({ check: () => true, headers: [] }),
    },
  );
}

/** One line: how rows are written, columns with their types and sources, the key, what goes where. */
export function summary({ shape, intake, check }: Target): string {
  const columns = shape.columns.map(
    ({ name, type, fallback }) => `${name} ${type}${fallback === null ? '' : ` = ${fallback}`}`,
  );
  const key = shape.key.map(({ name, generated }) => (generated === null ? name : `${name} = ${generated}`));
  const includes = intake.includes.map(
    (it) => ` ${it.what === 'header' ? `'${it.header}'` : it.what}→${it.column}`,
  );
  const options = [
    intake.format === 'json' ? '' : ` ${intake.format}`,
    intake.batched ? ' batched' : '',
    shape.onTypeError === 'null' ? ' onTypeError null' : '',
  ];
  return (
    `${check === 'unusable' ? 'unusable ' : ''}${shape.writeMode} (${columns.join(', ')})` +
    (key.length === 0 ? '' : ` key (${key.join(', ')})`) +
    (intake.document === null ? '' : ` document ${intake.document}`) +
    includes.join('') +
    options.join('')
  );
}
