/** Relations by name: what is remembered, looked up together, and forgotten while a lookup is under way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from '../kit/promises.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { KnownRelations } from './known-relations.ts';

function stage() {
  const looks: ReturnType<typeof deferred<number>>[] = [];
  const lookup = {
    look: () => {
      const look = deferred<number>();
      looks.push(look);
      return look.promise;
    },
    toTarget: (_: string, row: number) => ({ oid: row }) as Target,
  };
  const known = new KnownRelations<number, 'insert'>(lookup, {
    limits: { ...limits, relationsMax: 2, relationAgeMs: 1_000, catalogMissIntervalMs: 0 },
    clock: () => 0,
  });
  return { looks, find: () => known.find('t', 'insert'), forget: () => known.forget('t') };
}

test('concurrent lookups of a relation share one query, and its result is remembered', async () => {
  const { looks, find } = stage();
  const [early, late] = [find(), find()];
  looks[0]?.resolve(1);
  const first = await early;
  assert.equal(await late, first);
  assert.equal(find(), first);
  assert.equal(looks.length, 1);
});

test('a relation lookup under way when its relation is forgotten is not remembered', async () => {
  const { looks, find, forget } = stage();
  const early = find();
  forget();
  const late = find();
  looks[1]?.resolve(2);
  assert.equal((await late).oid, 2);
  looks[0]?.resolve(1);
  assert.equal((await early).oid, 1);
  assert.equal((await find()).oid, 2, 'the later lookup stays');
});
