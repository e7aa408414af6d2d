/** Groups that wait until other processes let them to the engine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { rowsOf, targetOf } from '../../test/support/rows.ts';
import { deferred } from '../kit/deferred.ts';
import type { Deferred } from '../kit/deferred.ts';
import type { Group, Outcome, Target } from '../tables/flow.ts';
import { limits } from '../tables/limits.ts';
import type { Permits } from './lane.ts';
import { Lanes } from './lanes.ts';

const [one, two] = [targetOf({ oid: 1 }), targetOf({ oid: 2 })];

function room(t: TestContext) {
  const at = { now: 0, given: 0, asked: 0 };
  const waiting: Deferred<() => void>[] = [];
  const permits: Permits = {
    take: () => {
      at.asked += 1;
      const next = deferred<() => void>();
      waiting.push(next);
      return next.promise;
    },
  };
  const groups: { readonly group: Group; readonly done: Deferred<readonly Outcome[]> }[] = [];
  const lanes = new Lanes({
    commit: (group) => {
      const done = deferred<readonly Outcome[]>();
      groups.push({ group, done });
      return done.promise;
    },
    permits,
    limits,
    clock: () => at.now,
    endOfTurn: setImmediate,
  });
  t.after(() => lanes.close());
  const told = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  return {
    at,
    groups,
    send: (target: Target, count = 1) =>
      Array.from({ length: count }, () => lanes.submit(rowsOf(target, '{}'))),
    told,
    /** Another process gives its permit. */
    give: async () => {
      waiting.shift()?.resolve(() => (at.given += 1));
      await told();
    },
    finish: async () => {
      const { group, done } = groups.shift() ?? {};
      assert.ok(group !== undefined && done !== undefined);
      done.resolve(group.members.map(() => ({ kind: 'committed', rows: 1 })));
      await told();
      return group.members.length;
    },
  };
}

test('a group takes all that came while it waited for its permit, which it gives back at its end', async (t) => {
  const { at, groups, send, told, give, finish } = room(t);
  const sent = send(one, 2);
  await told();
  sent.push(...send(one, 3));
  await told();
  assert.equal(groups.length, 0);
  await give();
  sent.push(...send(one, 4));
  await told();
  assert.equal(at.given, 0);
  assert.equal(await finish(), 5);
  assert.equal(at.given, 1);
  await give();
  // Half of all would be fewer: another process has the other group.
  assert.equal(await finish(), 4);
  for (const outcome of await Promise.all(sent)) assert.equal(outcome.kind, 'committed');
});

test('where several tables are busy their groups wait for no other process', async (t) => {
  const { at, groups, send, told, give, finish } = room(t);
  void send(one);
  await told();
  assert.equal(at.asked, 1);
  void send(two);
  await told();
  assert.equal(at.asked, 1);
  assert.equal(groups.length, 1);
  await give();
  assert.equal(groups.length, 2);
  await finish();
  await finish();
});
