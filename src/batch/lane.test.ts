import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { deferred } from '../kit/promises.ts';
import type { Deferred } from '../kit/promises.ts';
import { rowsOf as documentsOf, targetOf } from '../../test/support/rows.ts';
import type { Chain, Group, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal } from '../errors/refusals.ts';
import { Pace } from './lane-rate.ts';
import { Lane } from './lane.ts';
import { Lanes } from './lanes.ts';
import { limits as allLimits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';

const table = (oid = 1): Target => targetOf({ oid });
const one = table();
const rowsOf = (target: Target, size: number, count = 1, ackTimeoutMs = 100): Rows => ({
  ...documentsOf(target, ...Array.from({ length: count }, () => Buffer.alloc(size))),
  ackTimeoutMs,
});

/** A lane whose turns, clock and engine are moved by hand. */
function bench(given: Partial<Limits> = {}) {
  const turns: (() => void)[] = [];
  const groups: { group: Group; done: Deferred<readonly Outcome[]> }[] = [];
  const at = { now: 0, idle: 0 };
  const limits = {
    ...allLimits,
    laneRowsMax: 10,
    laneBytesMax: 1_000,
    groupRowsMax: 4,
    groupBytesMax: 400,
    groupTargetMs: 1_000,
    ackDeadlineMs: 100,
    largeCommitsMax: 2,
    ...given,
  };
  const options = {
    commit: {
      commit: (group: Group) => {
        const done = deferred<readonly Outcome[]>();
        groups.push({ group, done });
        return done.promise;
      },
    },
    limits,
    clock: () => at.now,
    endOfTurn: (run: () => void) => void turns.push(run),
    onIdle: () => void at.idle++,
  };
  const lane = new Lane(options, new Pace(limits));
  return {
    lane,
    options,
    groups,
    at,
    endTurn: () => turns.splice(0).forEach((run) => run()),
    finish: async (outcome: Outcome = { kind: 'committed', rows: 1 }) => {
      const next = groups.shift();
      assert(next !== undefined, 'a group is at the engine');
      const before = turns.length;
      next.done.resolve(next.group.members.map(() => outcome));
      await new Promise(setImmediate);
      // The turn in which it ended ends as well.
      for (const run of turns.splice(before)) run();
      await new Promise(setImmediate);
      return next.group;
    },
  };
}
const codeOf = (outcome: Outcome) =>
  outcome.kind === 'committed' ? 'committed' : `${outcome.kind} ${outcome.refusal.code}`;

suite('a lane puts its requests into bounded groups and settles each receipt once', () => {
  test('a lane makes one group of the requests of one turn, and the next group of those that arrive during its commit', async () => {
    const { lane, groups, at, endTurn, finish } = bench();
    const receipts = [lane.submit(rowsOf(one, 10)), lane.submit(rowsOf(one, 10))];
    assert.equal(lane.state, 'gathering');
    assert.equal(groups.length, 0);
    endTurn();
    assert.equal(lane.state, 'committing');
    receipts.push(lane.submit(rowsOf(one, 10)), lane.submit(rowsOf(one, 10)), lane.submit(rowsOf(one, 10)));
    assert.equal(groups.length, 1, 'one group at a time');
    assert.equal((await finish()).members.length, 2);
    assert.equal((await finish()).members.length, 3);
    assert.deepEqual(
      (await Promise.all(receipts)).map(codeOf),
      Array.from({ length: 5 }, () => 'committed'),
    );
    assert.equal(lane.state, 'idle');
    assert.equal(at.idle, 1);
  });

  test('a group of a lane keeps within its bounds on rows and bytes and has one version of the table', async () => {
    const { lane, endTurn, finish } = bench({ laneRowsMax: 100, laneBytesMax: 10_000 });
    const altered = table();
    for (let i = 0; i < 5; i++) void lane.submit(rowsOf(one, 1));
    void lane.submit(rowsOf(one, 399));
    void lane.submit(rowsOf(one, 2));
    void lane.submit(rowsOf(altered, 1));
    void lane.submit(rowsOf(one, 900));
    endTurn();
    const groups = [];
    for (let i = 0; i < 5; i++) groups.push(await finish());
    assert.deepEqual(
      groups.map((g) => [g.rows, g.bytes]),
      [
        [4, 4],
        [2, 400],
        [1, 2],
        [1, 1],
        [1, 900],
      ],
    );
    assert.equal(groups[3]?.target, altered);
    assert.equal(lane.state, 'idle');
  });

  test('a lane is full by rows and by bytes, and accepts again after a group has left', async () => {
    const { lane, endTurn, finish } = bench();
    void lane.submit(rowsOf(one, 1));
    endTurn();
    const waiting = Array.from({ length: 10 }, () => lane.submit(rowsOf(one, 1)));
    assert.equal(lane.isFull(0, 100), true);
    assert.equal(codeOf(await lane.submit(rowsOf(one, 1))), 'aborted lane_full');
    await finish();
    assert.equal(lane.depth, 6);
    assert.equal(lane.isFull(994, 100), false);
    assert.equal(lane.isFull(995, 100), true);
    for (let i = 0; i < 3; i++) await finish();
    assert.equal((await Promise.all(waiting)).length, 10);
  });

  test('the lane of a slow table commits small groups, keeps a short queue, and begins no request that would be late', async () => {
    const { lane, at, groups, endTurn, finish } = bench({
      laneRowsMax: 1_000,
      groupRowsMax: 64,
      groupTargetMs: 500,
    });
    const receipts: Promise<Outcome>[] = [];
    const submit = (rows: number, ackTimeoutMs = 2_500) => {
      for (let i = 0; i < rows; i++) receipts.push(lane.submit(rowsOf(one, 1, 1, ackTimeoutMs)));
    };
    submit(64);
    endTurn();
    submit(200);
    // 64 rows took 2 s, so that half a second has room for 16. It may have been a hiccup: the queue is as long as before.
    at.now = 2_000;
    await finish();
    assert.equal(groups[0]?.group.rows, 16);
    assert.equal(lane.isFull(0, 2_500), false);
    at.now = 2_500;
    submit(200, 60_000);
    await finish();
    assert.equal(groups[0]?.group.rows, 16);
    assert.equal(lane.isFull(0, 2_500), true);
    assert.equal(lane.isFull(0, 60_000), false);
    // Quick again: twice as many each time.
    at.now = 2_501;
    for (const rows of [32, 64, 64]) {
      await finish();
      assert.equal(groups[0]?.group.rows, rows);
    }
    await finish();
    submit(1);
    endTurn();
    submit(1, 10);
    submit(1, 2_500);
    at.now += 400;
    await finish();
    await finish();
    assert.deepEqual((await Promise.all(receipts)).slice(-3).map(codeOf), [
      'committed',
      'aborted deadline',
      'committed',
    ]);
  });

  test('an empty lane accepts one request of any size', async () => {
    const { lane, endTurn, finish } = bench();
    const receipt = lane.submit(rowsOf(one, 5_000));
    endTurn();
    await finish();
    assert.equal(codeOf(await receipt), 'committed');
  });

  test('past its deadline a request waiting in a lane is aborted, one at the engine is unknown, and each is settled once', async () => {
    const { lane, at, endTurn, finish } = bench();
    const atEngine = lane.submit(rowsOf(one, 1));
    endTurn();
    at.now = 50;
    const waiting = lane.submit(rowsOf(one, 1));
    at.now = 120;
    lane.expire(at.now);
    assert.equal(codeOf(await atEngine), 'unknown deadline');
    assert.equal(lane.depth, 1);
    at.now = 151;
    lane.expire(at.now);
    assert.equal(codeOf(await waiting), 'aborted deadline');
    assert.equal(lane.depth, 0);
    await finish();
    assert.equal(lane.state, 'idle');
    assert.equal(codeOf(await atEngine), 'unknown deadline');
  });

  test('a lane times out each request after its own limit, wherever it is in the queue', async () => {
    const { lane, at, endTurn, finish } = bench();
    const atEngine = [lane.submit(rowsOf(one, 1, 1, 300)), lane.submit(rowsOf(one, 1, 1, 100))];
    endTurn();
    const waiting = [
      lane.submit(rowsOf(one, 1, 2, 400)),
      lane.submit(rowsOf(one, 1, 1, 50)),
      lane.submit(rowsOf(one, 1)),
    ];
    lane.expire((at.now = 50));
    assert.equal(codeOf((await waiting[1]) ?? assert.fail()), 'aborted deadline');
    assert.equal(lane.depth, 3);
    lane.expire((at.now = 100));
    assert.equal(codeOf((await atEngine[1]) ?? assert.fail()), 'unknown deadline');
    assert.equal(codeOf((await waiting[2]) ?? assert.fail()), 'aborted deadline');
    assert.equal(lane.depth, 2);
    lane.expire((at.now = 299));
    await finish();
    assert.equal(codeOf((await atEngine[0]) ?? assert.fail()), 'committed');
    assert.deepEqual((await finish()).rows, 2);
    assert.equal(codeOf((await waiting[0]) ?? assert.fail()), 'committed');
    assert.equal(lane.state, 'idle');
  });

  test('a lane refuses the later rows of a chain after any refusal of earlier rows', async () => {
    const broken = async (refuse: (b: ReturnType<typeof bench>) => Promise<void> | void) => {
      const room = bench();
      const chain: Chain = { broken: false };
      const chained = (size = 1) => room.lane.submit({ ...rowsOf(one, size), chain });
      const receipts = [chained(), room.lane.submit(rowsOf(one, 1, 1, 500))];
      room.endTurn();
      receipts.push(chained(), room.lane.submit(rowsOf(one, 1, 1, 500)), chained());
      await refuse(room);
      while (room.groups.length > 0) await room.finish();
      receipts.push(chained());
      room.endTurn();
      return (await Promise.all(receipts)).map(codeOf);
    };
    const refusedRow: Outcome = { kind: 'aborted', refusal: refusal('row_refused') };
    assert.deepEqual(await broken(async (room) => void (await room.finish(refusedRow))), [
      'aborted row_refused',
      'aborted row_refused',
      'aborted chain_broken',
      'committed',
      'aborted chain_broken',
      'aborted chain_broken',
    ]);
    assert.deepEqual(await broken(({ lane, at }) => lane.expire((at.now = 100))), [
      'unknown deadline',
      'committed',
      'aborted deadline',
      'committed',
      'aborted deadline',
      'aborted chain_broken',
    ]);
    assert.deepEqual((await broken(({ lane }) => lane.abort('draining'))).slice(4), [
      'aborted draining',
      'aborted chain_broken',
    ]);
  });

  test('a lane settles when its present chains and late receipts have, whatever arrives later', async () => {
    const { lane, at, endTurn, finish } = bench();
    const chain: Chain = { broken: false };
    let settled = 0;
    const ask = () => void lane.settled().then(() => (settled += 1));
    void lane.submit(rowsOf(one, 10));
    endTurn();
    ask();
    await Promise.resolve();
    assert.equal(settled, 1, 'nothing of a chain is there');
    const late = lane.submit({ ...rowsOf(one, 10, 4), chain });
    ask();
    await finish();
    void lane.submit(rowsOf(one, 10, 1, 1_000));
    at.now = 200;
    lane.expire(at.now);
    assert.equal(codeOf(await late), 'unknown deadline');
    ask();
    assert.equal(settled, 1, 'it is still at the engine');
    await finish();
    await Promise.resolve();
    assert.equal(settled, 3);
    await finish();
  });

  test('a lane settles every receipt exactly once, in any order of events', async () => {
    const event = fc.oneof(
      fc.record({
        do: fc.constant('submit' as const),
        rows: fc.integer({ min: 1, max: 3 }),
        size: fc.integer({ min: 0, max: 300 }),
        ackTimeoutMs: fc.integer({ min: 1, max: 300 }),
        chained: fc.boolean(),
      }),
      fc.record({
        do: fc.constantFrom('turn' as const, 'finish' as const, 'expire' as const, 'abort' as const),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 60 }), async (events) => {
        const { lane, at, groups, endTurn, finish } = bench();
        const receipts: Promise<Outcome>[] = [];
        const chain: Chain = { broken: false };
        for (const e of events) {
          if (e.do === 'submit') {
            const rows = rowsOf(one, e.size, e.rows, e.ackTimeoutMs);
            receipts.push(lane.submit({ ...rows, chain: e.chained ? chain : null }));
          }
          if (e.do === 'turn') endTurn();
          if (e.do === 'finish' && groups.length > 0) await finish();
          if (e.do === 'expire') lane.expire((at.now += 60));
          if (e.do === 'abort') lane.abort('draining');
          assert(groups.length <= 1, 'one group at the engine');
          assert(lane.depth <= 12);
        }
        endTurn();
        while (groups.length > 0) await finish();
        assert.equal((await Promise.all(receipts)).length, receipts.length);
        assert.equal(lane.state, 'idle');
        assert.equal(lane.depth, 0);
      }),
    );
  });
});

suite('lanes of several tables share the clock and the drain', () => {
  test('lanes of several tables commit side by side; a drain commits waiting requests and refuses new ones', async () => {
    const { options, groups, endTurn, finish } = bench();
    const lanes = new Lanes(options.commit, options, options.endOfTurn);
    const two = table(2);
    const first = lanes.submit(rowsOf(one, 1));
    const second = lanes.submit(rowsOf(two, 1));
    endTurn();
    assert.equal(groups.length, 2);
    const late = lanes.submit(rowsOf(one, 1));
    assert.deepEqual(
      Array.from(lanes.depths(), (lane) => lane.rows),
      [1, 0],
    );
    const drained = lanes.drain();
    assert.throws(() => lanes.admit(one), /Headgate is shutting down/);
    assert.equal(codeOf(await lanes.submit(rowsOf(one, 1))), 'aborted draining');
    for (let i = 0; i < 3; i++) await finish();
    await drained;
    assert.deepEqual((await Promise.all([first, second, late])).map(codeOf), [
      'committed',
      'committed',
      'committed',
    ]);
    lanes.close();
  });

  test('lanes check deadlines only while requests wait', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
    const { options, groups, at, endTurn, finish } = bench();
    let looks = 0;
    const clock = () => ((looks += 1), at.now);
    const lanes = new Lanes(options.commit, { ...options, clock }, options.endOfTurn);
    const looksIn = (ms: number) => {
      const before = looks;
      for (let passed = 0; passed < ms; passed += 50) t.mock.timers.tick(50);
      return looks - before;
    };
    assert.equal(looksIn(30_000), 0);
    for (let round = 0; round < 2; round++) {
      const first = lanes.submit(rowsOf(one, 1));
      endTurn();
      const late = lanes.submit(rowsOf(one, 1));
      assert.equal(looksIn(200), 4);
      at.now += 101;
      t.mock.timers.tick(50);
      assert.equal(codeOf(await first), 'unknown deadline');
      assert.equal(codeOf(await late), 'aborted deadline');
      assert.equal(looksIn(200), 4, 'the group is still at the engine');
      await finish();
      assert.equal(groups.length, 0);
      assert.equal(looksIn(30_000), 0);
    }
    lanes.close();
  });

  test("a lane's measured pace is kept while requests come, and for a minute or two after the last", async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const { options, groups, at, endTurn, finish } = bench({ groupTargetMs: 100 });
    const lanes = new Lanes(options.commit, options, options.endOfTurn);
    /** How many of three rows the first group takes; each group takes a second. */
    const firstOfThree = async () => {
      for (let i = 0; i < 3; i++) void lanes.submit(rowsOf(one, 1, 1, 60_000));
      endTurn();
      const first = groups[0]?.group.rows;
      while (groups.length > 0) {
        at.now += 1_000;
        await finish();
        await Promise.resolve();
      }
      return first;
    };
    assert.equal(await firstOfThree(), 3);
    assert.equal(await firstOfThree(), 1);
    t.mock.timers.tick(61_000);
    assert.equal(await firstOfThree(), 1);
    t.mock.timers.tick(121_000);
    assert.equal(await firstOfThree(), 3);
    lanes.close();
  });
});

const limits = { groupRowsMax: 2_048, groupTargetMs: 500 };

test("the size of a lane's groups adapts so that a group of a table of any speed takes about the target time", () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.001, max: 100, noNaN: true }),
      fc.double({ min: 0, max: 50, noNaN: true }),
      (rowMs, fixedMs) => {
        const pace = new Pace(limits);
        const take = () => pace.groupRows * rowMs + fixedMs;
        for (let i = 0; i < 30; i++) pace.record(pace.groupRows, take());
        assert(take() <= Math.max(limits.groupTargetMs, rowMs + fixedMs) * 1.01, `${take()} ms`);
        assert(
          pace.groupRows === limits.groupRowsMax || take() * 4 >= limits.groupTargetMs - fixedMs,
          `${pace.groupRows} rows`,
        );
      },
    ),
  );
});

test("the size of a lane's groups falls while a lock delays them, and recovers within a few groups", () => {
  const pace = new Pace(limits);
  for (let i = 0; i < 4; i++) pace.record(pace.groupRows, 2_000);
  assert(pace.groupRows < 512, `${pace.groupRows}`);
  for (let i = 0; i < 8; i++) pace.record(pace.groupRows, 5);
  assert.equal(pace.groupRows, 2_048);
});

test("small slow groups do not reduce the size of a lane's large groups", () => {
  const pace = new Pace(limits);
  for (let i = 0; i < 10; i++) pace.record(1, 20);
  assert.equal(pace.groupRows, 2_048);
  assert(pace.waitMs(2_000) < 25);
});

test('short pauses of the engine do not make a lane refuse requests', () => {
  const pace = new Pace(limits);
  for (let i = 0; i < 20; i++) pace.record(256, 10);
  for (const ms of [1_200, 10, 3_000, 12, 700, 9]) {
    pace.record(256, ms);
    // Half of the 2.5 s that a sender waits.
    assert(pace.waitMs(4_000) < 1_250, `${pace.waitMs(4_000)} ms`);
  }
});
