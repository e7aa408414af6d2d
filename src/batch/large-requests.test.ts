import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowsOf as documentsOf, targetOf } from '../../test/support/rows.ts';
import type { Chain, Group, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits as allLimits } from '../config/limits.ts';
import { deferred } from '../kit/promises.ts';
import type { Deferred } from '../kit/promises.ts';
import { Lanes } from './lanes.ts';

const tableOf = (oid: number): Target => targetOf({ oid });
const one = tableOf(1);
const rowsOf = (target: Target, size: number, count = 1, ackTimeoutMs = 100): Rows => ({
  ...documentsOf(target, ...Array.from({ length: count }, () => Buffer.alloc(size))),
  ackTimeoutMs,
});
const codeOf = (outcome: Outcome) =>
  outcome.kind === 'committed' ? 'committed' : `${outcome.kind} ${outcome.refusal.code}`;

/** Lanes whose turns, clock and engine are moved by hand. */
function bench() {
  const turns: (() => void)[] = [];
  const groups: { group: Group; done: Deferred<readonly Outcome[]> }[] = [];
  const at = { now: 0 };
  const limits = {
    ...allLimits,
    laneRowsMax: 10,
    laneBytesMax: 1_000,
    groupRowsMax: 4,
    groupBytesMax: 400,
    groupTargetMs: 1_000,
    ackDeadlineMs: 100,
    largeCommitsMax: 2,
  };
  const commit = (group: Group) => {
    const done = deferred<readonly Outcome[]>();
    groups.push({ group, done });
    return done.promise;
  };
  const lanes = new Lanes({ commit }, { limits, clock: () => at.now }, (run) => void turns.push(run));
  return {
    lanes,
    groups,
    at,
    endTurn: () => turns.splice(0).forEach((run) => run()),
    finishAll: async () => {
      for (let next = groups.shift(); next !== undefined; next = groups.shift()) {
        next.done.resolve(next.group.members.map(() => ({ kind: 'committed', rows: 1 })));
        await new Promise(setImmediate);
      }
    },
  };
}

test("large requests without a chain commit beside their table's lane, a bounded number at a time", async () => {
  const { lanes, groups, endTurn, finishAll, at } = bench();
  const tables = [one, tableOf(2), tableOf(3)];
  const large = tables.map((it) => lanes.submit(rowsOf(it, 200, 5)));
  const small = tables.map((it) => lanes.submit(rowsOf(it, 1)));
  endTurn();
  await Promise.resolve();
  const rowsAt = () => groups.map(({ group }) => group.rows).toSorted((a, b) => a - b);
  assert.deepEqual(rowsAt(), [1, 1, 1, 5, 5], 'two large ones hold a pass');
  assert.deepEqual(
    Array.from(lanes.depths(), (it) => it.rows),
    [0, 0, 5],
    'of a table and what is beside it',
  );
  // It waits for its pass as long as it would for a group, and is certainly not stored then.
  const late = lanes.submit(rowsOf(one, 200, 5, 50));
  at.now = 60;
  // The sweep of the lanes keeps no process alive by itself.
  const alive = setInterval(() => undefined, 1_000);
  assert.equal(codeOf(await late), 'aborted deadline');
  clearInterval(alive);
  await finishAll();
  assert.ok((await Promise.all([...large, ...small])).every(({ kind }) => kind === 'committed'));
  await lanes.drain();
  lanes.close();
});

test("large requests with a key, in a chain or with deletes are committed in order in their table's lane", async () => {
  const { lanes, groups, endTurn, finishAll } = bench();
  const keyed = targetOf({ oid: 1, shape: { key: [{ name: 'data', generated: null }] } });
  const chain: Chain = { broken: false };
  const receipts = [
    lanes.submit(rowsOf(keyed, 1)),
    lanes.submit(rowsOf(keyed, 180, 5)),
    lanes.submit({ ...rowsOf(tableOf(2), 1), chain }),
    lanes.submit({ ...rowsOf(tableOf(2), 180, 5), chain }),
    lanes.submit(rowsOf(tableOf(3), 1)),
    lanes.submit({ ...rowsOf(tableOf(3), 180, 5), deletes: new Uint8Array(5) }),
  ];
  endTurn();
  await Promise.resolve();
  assert.deepEqual(
    groups.map(({ group }) => group.rows),
    [1, 1, 1],
  );
  await finishAll();
  assert.ok((await Promise.all(receipts)).every(({ kind }) => kind === 'committed'));
  await lanes.drain();
  lanes.close();
});

test('a large request is refused before its body is read if the large requests of its table leave no room', async () => {
  const { lanes, endTurn, finishAll } = bench();
  const receipts = [lanes.submit(rowsOf(one, 450))];
  endTurn();
  await Promise.resolve();
  receipts.push(lanes.submit(rowsOf(one, 450)), lanes.submit(rowsOf(one, 450)));
  const expected = { bytes: 450, inOrder: false };
  assert.throws(() => lanes.admit(one, expected, 100), /too many requests are waiting/);
  assert.throws(() => lanes.admit(one, { ...expected, bytes: 1_001 }, 100), /too many requests are waiting/);
  assert.doesNotThrow(() => lanes.admit(one, { bytes: 1_001, inOrder: true }, 100), 'its own lane is empty');
  assert.doesNotThrow(() => lanes.admit(one));
  await finishAll();
  assert.ok((await Promise.all(receipts)).every(({ kind }) => kind === 'committed'));
  await lanes.drain();
  lanes.close();
});
