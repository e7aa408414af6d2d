import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { rowsOf, targetOf } from '../../test/support/rows.ts';
import { deferred } from '../kit/promises.ts';
import type { Group, Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal } from '../errors/refusals.ts';
import { aborted } from './interpret-reply.ts';
import { limits } from '../config/limits.ts';
import { GroupSharing } from './shared-transaction.ts';

const plain = { ...targetOf().code, functionsIn: 'headgate' } as const;
const tables = Array.from({ length: 9 }, (_, i) => targetOf({ oid: i, table: `t${i}`, code: plain }));
const tableAt = (i: number): Target => tables[i] ?? targetOf();
const groupOf = (i: number, rows = 1): Group => {
  const member = rowsOf(tableAt(i), ...Array.from({ length: rows }, () => '{}'));
  return { target: member.target, members: [member], rows, bytes: member.bytes };
};
const stored = ({ members }: Group): readonly Outcome[] =>
  members.map(({ count }) => ({ kind: 'committed', rows: count }));
const refused: readonly Outcome[] = [aborted(refusal('row_refused'))];

/** Whose engine and clock are moved by hand. `began`: what has been asked of the engine, in order. */
function room() {
  const at = { now: 0 };
  const began: string[] = [];
  const ends: ((stored: boolean, outcomes?: readonly Outcome[]) => Promise<void>)[] = [];
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  const sent = () => turn().then(turn);
  const name = (groups: readonly Group[]) => groups.map(({ target }) => target.oid).join('+');
  const begin = <T>(
    groups: readonly Group[],
    value: (stored: boolean, outcomes?: readonly Outcome[]) => T,
  ) => {
    const done = deferred<T>();
    began.push(name(groups));
    ends.push((isStored, outcomes) => {
      done.resolve(value(isStored, outcomes));
      return turn();
    });
    return done.promise;
  };
  let isBroken = false;
  const together = (groups: readonly Group[]) => {
    if (!isBroken) return begin(groups, (isStored) => (isStored ? groups.map(stored) : null));
    began.push(name(groups));
    return Promise.reject(new Error('a bug'));
  };
  const alone = async (group: Group) => {
    const started = at.now;
    const outcomes = await begin([group], (_, given) => given ?? stored(group));
    return { outcomes, ms: at.now - started };
  };
  const sharing = new GroupSharing(
    { alone, together, hasPooler: () => false },
    {
      clock: () => at.now,
      limits: {
        ...limits,
        sharedTransactionsMax: 1,
        sharedTablesMax: 4,
        sharedGroupRowsMax: 3,
        sharedGroupBytesMax: 1_000,
        sharedBytesMax: 2_000,
        sharedQuickMs: 50,
        sharedStatementMs: 250,
        apartMinMs: 1_000,
        apartMaxMs: 4_000,
      },
    },
  );
  const commit = (group: Group) => sharing.store(group);
  return {
    at,
    /** What has begun since it was asked last. */
    begun: async () => {
      await sent();
      return began.splice(0);
    },
    /** The transaction that began first ends: stored, or not; alone with these outcomes. */
    end: async (isStored = true, outcomes?: readonly Outcome[]) => {
      await sent();
      await ends.shift()?.(isStored, outcomes);
    },
    /** What is asked together throws from now on. */
    breaks: () => void (isBroken = true),
    atOnce: (...groups: readonly Group[]) => void groups.map((group) => commit(group)),
    /** The first one a moment before the others. */
    send: async (first: Group, ...others: readonly Group[]) => {
      const before = commit(first);
      await turn();
      const all = await Promise.all([before, ...others.map((group) => commit(group))]);
      return all.map(([outcome]) => outcome?.kind);
    },
  };
}

suite('groups of several tables share transactions', () => {
  test('a lone group commits at once, and groups arriving meanwhile share a transaction', async () => {
    const { begun, end, send } = room();
    const sent = send(groupOf(0), groupOf(1), groupOf(2, 2), groupOf(3));
    assert.deepEqual(await begun(), ['0']);
    await end();
    assert.deepEqual(await begun(), ['1+2+3']);
    await end();
    assert.deepEqual(await sent, Array(4).fill('committed'));
    void send(groupOf(1));
    assert.deepEqual(await begun(), ['1']);
  });

  test('groups that arrive at one moment share a transaction up to its bound', async () => {
    const { atOnce, begun, end } = room();
    atOnce(...[0, 1, 2, 3, 4].map((i) => groupOf(i)));
    assert.deepEqual(await begun(), ['0+1+2+3']);
    await end();
    assert.deepEqual(await begun(), ['4']);
  });

  test('large groups and groups of tables with code go alone, and a shared transaction keeps its bounds', async () => {
    const { begun, end, send } = room();
    const code = { ...plain, as: 'owner' } as const;
    const own = { ...groupOf(0), target: { ...tableAt(0), oid: 77, code } };
    void send(groupOf(0), groupOf(1, 4), own, ...[2, 3, 4, 5, 6].map((i) => groupOf(i)));
    assert.deepEqual(await begun(), ['0', '1', '77']);
    await end();
    assert.deepEqual(await begun(), ['2+3+4+5']);
    await end();
    await end();
    await end();
    assert.deepEqual(await begun(), ['6']);
  });

  test('after a failed shared transaction each group commits alone, and one with refused rows stays alone longer each time', async () => {
    const { at, begun, end, send } = room();
    for (const [apartMs, sharesAgain] of [
      [1_000, true],
      [2_000, true],
      [4_000, true],
      [4_000, true],
    ] as const) {
      const sent = send(groupOf(0), groupOf(1), groupOf(2));
      await end();
      await end(false);
      assert.deepEqual(await begun(), ['0', '1+2', '1', '2']);
      await end(true, refused);
      await end();
      assert.deepEqual(await sent, ['committed', 'aborted', 'committed']);
      at.now += apartMs - 1;
      void send(groupOf(0), groupOf(1), groupOf(2), groupOf(3));
      assert.deepEqual(await begun(), ['0', '1']);
      await end();
      await end();
      assert.deepEqual(await begun(), ['2+3']);
      await end();
      at.now += 1;
      assert(sharesAgain);
    }
  });

  test('after two slow shared transactions their tables commit alone once, and the quick ones share again', async () => {
    const { at, begun, end, send } = room();
    for (const ms of [201, 250]) {
      void send(groupOf(0), groupOf(1), groupOf(2));
      await end();
      assert.deepEqual(await begun(), ['0', '1+2']);
      at.now += ms;
      await end();
    }
    void send(groupOf(1), groupOf(2));
    assert.deepEqual(await begun(), ['1', '2']);
    await end();
    at.now += 300;
    await end();
    void send(groupOf(0), groupOf(1), groupOf(2), groupOf(3));
    assert.deepEqual(await begun(), ['0', '2']);
    await end();
    await end();
    assert.deepEqual(await begun(), ['1+3']);
    await end();
    at.now += 1_000;
    void send(groupOf(0), groupOf(1), groupOf(2));
    await end();
    assert.deepEqual(await begun(), ['0', '1+2']);
  });

  test('repeated failures to share a transaction delay nobody, and sharing is attempted again later', async () => {
    const { at, begun, end, send } = room();
    for (let i = 0; i < 4; i++) {
      void send(groupOf(0), groupOf(1), groupOf(2));
      await end();
      await end(false);
      await end();
      await end();
    }
    await begun();
    void send(groupOf(0), groupOf(1), groupOf(2));
    assert.deepEqual(await begun(), ['0', '1', '2']);
    for (let i = 0; i < 3; i++) await end();
    at.now += 4_000;
    void send(groupOf(0), groupOf(1), groupOf(2));
    await end();
    assert.deepEqual(await begun(), ['0', '1+2']);
  });

  test('a stuck shared transaction delays other groups only briefly', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { at, begun, end, send } = room();
    const first = send(groupOf(0), groupOf(1), groupOf(2));
    assert.deepEqual(await begun(), ['0']);
    at.now += 200;
    t.mock.timers.tick(200);
    assert.deepEqual(await begun(), ['1+2']);
    await end();
    await end();
    assert.deepEqual(await first, Array(3).fill('committed'));
    void send(groupOf(3), groupOf(4));
    assert.deepEqual(await begun(), ['3']);
  });

  test('slow groups do not make a stuck shared transaction delay others for longer', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { at, begun, end, send } = room();
    for (let i = 0; i < 100; i++) {
      void send(groupOf(0));
      assert.deepEqual(await begun(), ['0']);
      at.now += 700;
      await end();
    }
    void send(groupOf(1), groupOf(2), groupOf(3));
    assert.deepEqual(await begun(), ['1']);
    at.now += 500;
    t.mock.timers.tick(500);
    assert.deepEqual(await begun(), ['2+3']);
  });

  test('an error while groups are stored together reaches each of them, and delays no later one', async () => {
    const { begun, end, send, breaks } = room();
    const sent = assert.rejects(send(groupOf(0), groupOf(1), groupOf(2)), /a bug/);
    assert.deepEqual(await begun(), ['0']);
    breaks();
    await end();
    await sent;
    assert.deepEqual(await begun(), ['1+2']);
    void send(groupOf(3));
    assert.deepEqual(await begun(), ['3']);
  });
});
