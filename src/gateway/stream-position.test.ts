import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { allBelow, endedBelow, hasEnded } from '../kit/position.ts';
import {
  addressOf,
  advanced,
  cheapestPair,
  endedAt,
  gapTo,
  parseAddress,
  parsePlace,
  printAddress,
  printPlace,
  readEverywhere,
  wholly,
} from './stream-position.ts';
import type { StreamPosition } from './stream-position.ts';

/** Of 20 transactions; some of those below `xid` are open. */
const ended = fc
  .record({
    xid: fc.integer({ min: 1, max: 20 }),
    open: fc.array(fc.integer({ min: 1, max: 20 }), { maxLength: 3 }),
  })
  .map(({ xid, open }) => endedBelow(BigInt(xid), open.map(BigInt)));
const steps = fc.array(
  fc.record({
    from: fc.integer({ min: 0, max: 30 }),
    length: fc.oneof(fc.integer({ min: 1, max: 30 }), fc.constant(Infinity)),
    until: ended,
  }),
  { maxLength: 12 },
);
const place = steps.map((all) =>
  all.reduce<StreamPosition>(
    (at, { from, length, until }) => advanced(at, from, from + length, until),
    wholly(7, 8, allBelow(1n)),
  ),
);
const addresses = Array.from({ length: 70 }, (_, at) => at);
const xids = Array.from({ length: 20 }, (_, at) => BigInt(at + 1));

test('a stream position knows the transactions read at each address of a table, and round-trips as text', () => {
  fc.assert(
    fc.property(steps, (all) => {
      let found = wholly(7, 8, allBelow(1n));
      const model = addresses.map(() => new Set<bigint>());
      for (const { from, length, until } of all) {
        found = advanced(found, from, from + length, until);
        for (const at of addresses)
          if (at >= from && at < from + length)
            for (const xid of xids.filter((it) => hasEnded(until, it))) model[at]?.add(xid);
      }
      for (const at of addresses)
        assert.deepEqual(
          xids.filter((xid) => hasEnded(endedAt(found, at), xid)),
          xids.filter((xid) => model[at]?.has(xid)),
        );
      assert.deepEqual(parsePlace(printPlace(found)), found);
      for (const xid of xids.filter((it) => hasEnded(readEverywhere(found), it)))
        assert.ok(model.every((read) => read.has(xid)));
    }),
  );
});

test('a stream position reaches another one gap by gap and reads nothing twice', () => {
  fc.assert(
    fc.property(place, place, (from, goal) => {
      let here = from;
      const read = new Set<string>();
      for (let rounds = 0; ; rounds++) {
        const gap = gapTo(here, goal);
        if (gap === null) break;
        assert.ok(rounds < 500);
        // A page may end anywhere.
        const to = Math.min(gap.to, gap.from + 3);
        const isNew = (xid: bigint): boolean =>
          hasEnded(gap.until, xid) && !(gap.since !== null && hasEnded(gap.since, xid));
        for (const at of addresses.filter((it) => it >= gap.from && it < to))
          for (const xid of xids.filter(isNew)) {
            assert.equal(read.has(`${at} ${xid}`), false);
            read.add(`${at} ${xid}`);
          }
        here = advanced(here, gap.from, gap.from >= 64 ? Infinity : to, gap.until);
      }
      for (const at of addresses.slice(0, 64))
        for (const xid of xids)
          if (hasEnded(endedAt(goal, at), xid) && !hasEnded(endedAt(from, at), xid))
            assert.ok(read.has(`${at} ${xid}`), `${at} ${xid}`);
      assert.equal(gapTo(goal, goal), null);
    }),
  );
});

test('a full stream position merges the two neighbouring ranges with the fewest rows', () => {
  const at = [
    [0, 100],
    [100, 110],
    [110, 115],
  ].reduce(
    (before, [from = 0, to = 0], n) => advanced(before, from, to, allBelow(BigInt(10 + n))),
    wholly(1, 1, allBelow(9n)),
  );
  assert.deepEqual(cheapestPair(at, Infinity), { from: 100, to: 115 });
  assert.deepEqual(cheapestPair(at, 110), { from: 0, to: 110 });
  assert.equal(cheapestPair(at, 100), null);
});

test('a stream position round-trips as text', () => {
  assert.equal(parseAddress('(4294967294,291)'), addressOf(4_294_967_294, 291));
  assert.equal(printAddress(addressOf(3, 4)), '(3,4)');
  for (const text of [
    '',
    '0',
    '1.2',
    '1.2-',
    '1.2-3-4',
    '1.2-3-0.4',
    '1.2-3-9.4-8.5',
    '1.2-3-5.6-',
    "1.2-3'",
    '1.2-3~',
    '1.2-3~A',
    '1.2-3~-1',
    `1.2-3${'~1'.repeat(33)}`,
  ])
    assert.equal(parsePlace(text), null, text);
  assert.equal(parsePlace(`1.2-3${'-9.1'.repeat(3)}`), null);
  assert.equal(parsePlace('1.2-3-999999999999999.4'), null);
});
