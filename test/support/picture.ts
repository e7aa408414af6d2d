/** A picture of the catalog of database `postgres`, whose sealed values are texts in base64 and whose checks let everything pass. */
import type { ClientBase } from 'pg';
import { SnapshotCache } from '../../src/catalog/snapshot-cache.ts';
import { look } from '../../src/catalog/queries.ts';
import type { Compiles, Snapshot } from '../../src/catalog/snapshot.ts';
import { destinationOf } from '../../src/catalog/destination.ts';
import { limits } from '../../src/config/limits.ts';
import type { Limits } from '../../src/config/limits.ts';
import { createCompileAnswers } from '../../src/validate/answers.ts';
import { noKeySets } from './no-key-sets.ts';

export const compiler: Compiles = {
  keySets: noKeySets,
  verifier: undefined,
  open: (sealed: string) => Buffer.from(sealed, 'base64').toString(),
  compileAnswers: createCompileAnswers(null),
  compile: () => ({ check: () => true, headers: [] }),
  destination: (value: string, trusted: boolean) => destinationOf(value, ['rw:4566'], trusted),
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
  const before = picture.snapshot;
  picture.compare(await look(client, picture.mark));
  if (picture.isDue) await picture.read(client);
  return picture.snapshot === before ? null : before;
}
