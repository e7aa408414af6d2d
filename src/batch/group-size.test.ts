import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Pace } from './group-size.ts';

const limits = { groupRowsMax: 2_048, groupTargetMs: 500 };

test('groups of a table of any speed come to take about as long as they should, and never more than that for long', () => {
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

test('a lock that is held costs a few small groups, and nothing after them', () => {
  const pace = new Pace(limits);
  for (let i = 0; i < 4; i++) pace.record(pace.groupRows, 2_000);
  assert(pace.groupRows < 512, `${pace.groupRows}`);
  for (let i = 0; i < 8; i++) pace.record(pace.groupRows, 5);
  assert.equal(pace.groupRows, 2_048);
});

test('small slow groups do not reduce the size of large ones', () => {
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
