/** A picture of the catalog of database `postgres`, whose sealed values are texts in base64 and whose checks let everything pass. */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import type { Client, ClientBase } from 'pg';
import { onEnd } from './cleanup.ts';
import { SnapshotCache } from '../../src/catalog/snapshot-cache.ts';
import { pollVersions } from '../../src/catalog/version-poll.ts';
import { CatalogWatcher } from '../../src/catalog/watcher.ts';
import type { Snapshot } from '../../src/catalog/database-tables.ts';
import type { TableCompiler } from '../../src/catalog/table-compiler.ts';
import { limits } from '../../src/config/limits.ts';
import type { Limits } from '../../src/config/limits.ts';
import { noKeySets } from './no-key-sets.ts';

const compiler: TableCompiler = {
  keySets: noKeySets,
  verifier: undefined,
  open: (sealed: string) => Buffer.from(sealed, 'base64').toString(),
  compile: () => ({ check: () => true, headers: [] }),
  publicUrl: null,
  intoHosts: ['rw:4566'],
};

/** `clock`: in ms. */
export function pictureOf(
  given: Partial<Pick<Limits, 'catalogTablesMax' | 'catalogWholeMs'>>,
  clock = () => 0,
): SnapshotCache {
  const bounds = { ...limits, catalogTablesMax: 100, catalogWholeMs: Infinity, ...given };
  return new SnapshotCache('postgres', compiler, { limits: bounds, clock });
}

/** A look and, if it finds something to read, a reading. Returns the previous snapshot if there is a new one. */
export async function update(picture: SnapshotCache, client: ClientBase): Promise<Snapshot | null> {
  const before = picture.tables.snapshot;
  picture.compare(await pollVersions(client, picture.mark));
  if (picture.isDue) await picture.read(client);
  return picture.tables.snapshot === before ? null : before;
}

/** What a snapshot says of its tables, to be compared. */
export const described = ({ tables, sources, unusable, unanswering }: Snapshot) => ({
  tables: new Map(
    [...tables].map(([key, { oid, check, shape, code }]) => [
      key,
      { oid, shape, code, isUsable: check !== 'unusable' },
    ]),
  ),
  sources,
  unusable,
  unanswering,
});

export interface QueryHooks {
  /** Called before a query is put. */
  before?: (text: string) => Promise<unknown>;
  /** Called when it is answered, before anybody has the answer. */
  after?: (text: string) => Promise<unknown>;
}

/** A watcher that looks only when it is asked. `isOwn`: over sessions that are certainly Headgate's own. */
export async function watcherOf(
  t: TestContext,
  open: () => Promise<Client>,
  hooks: QueryHooks,
  isOwn = true,
) {
  const [polling, reading] = [await open(), await open()];
  for (const client of [polling, reading]) {
    const query = client.query.bind(client) as (given: unknown, ...rest: unknown[]) => Promise<unknown>;
    Object.assign(client, {
      query: async (given: string | { text: string }, ...rest: unknown[]) => {
        const text = typeof given === 'string' ? given : given.text;
        await hooks.before?.(text);
        if (text.startsWith('listen ')) return undefined;
        const answer = await query(given, ...rest);
        await hooks.after?.(text);
        return answer;
      },
    });
  }
  const clock = () => performance.now();
  const watcher = new CatalogWatcher('postgres', { compiler, clock, limits, observe: () => {} });
  if (isOwn) await watcher.listen(polling);
  await watcher.begin({ polling, reading, fail: assert.ifError });
  onEnd(t, 'watcher', () => watcher.end());
  const settled = async () => {
    await watcher.ask();
    await watcher.settle();
  };
  const table = (name: string) => watcher.picture.tables.snapshot.tables.get(`public\0${name}`);
  return { watcher, settled, table };
}
