import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  addressOf,
  advanced,
  cheapestPair,
  furthestXid,
  gapTo,
  leastXid,
  parseAddress,
  parsePlace,
  printAddress,
  printPlace,
  wholly,
  xidAt,
} from './stream-position.ts';
import type { StreamPosition } from './stream-position.ts';

const steps = fc.array(
  fc.record({
    from: fc.integer({ min: 0, max: 30 }),
    length: fc.oneof(fc.integer({ min: 1, max: 30 }), fc.constant(Infinity)),
    until: fc.integer({ min: 1, max: 20 }),
  }),
  { maxLength: 12 },
);
const place = steps.map((all) =>
  all.reduce<StreamPosition>(
    (at, { from, length, until }) => advanced(at, from, from + length, BigInt(until)),
    wholly(7, 8, 1n),
  ),
);
const addresses = Array.from({ length: 70 }, (_, at) => at);

test('a place knows of each address how far it was read, and is told in a text', () => {
  fc.assert(
    fc.property(steps, (all) => {
      let found = wholly(7, 8, 1n);
      const model = addresses.map(() => 1n);
      for (const { from, length, until } of all) {
        found = advanced(found, from, from + length, BigInt(until));
        for (const at of addresses)
          if (at >= from && at < from + length && (model[at] ?? 0n) < until) model[at] = BigInt(until);
      }
      assert.deepEqual(
        addresses.map((at) => xidAt(found, at)),
        model,
      );
      assert.deepEqual(parsePlace(printPlace(found)), found);
      assert.equal(leastXid(found) <= furthestXid(found), true);
    }),
  );
});

test('gap by gap a place comes to another one, and reads nothing twice', () => {
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
        for (const at of addresses.filter((it) => it >= gap.from && it < to))
          for (let xid: bigint = gap.since ?? 0n; xid < gap.until; xid++) {
            assert.equal(read.has(`${at} ${xid}`), false);
            read.add(`${at} ${xid}`);
          }
        here = advanced(here, gap.from, gap.from >= 64 ? Infinity : to, gap.until);
      }
      for (const at of addresses.slice(0, 64))
        for (let xid = xidAt(from, at); xid < xidAt(goal, at); xid++)
          assert.ok(read.has(`${at} ${xid}`), `${at} ${xid}`);
      assert.equal(gapTo(goal, goal), null);
    }),
  );
});

test('a full stream position merges the two neighbouring ranges with the fewest rows', () => {
  const at = advanced(advanced(advanced(wholly(1, 1, 9n), 0, 100, 10n), 100, 110, 11n), 110, 115, 12n);
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
  ])
    assert.equal(parsePlace(text), null, text);
  assert.equal(parsePlace(`1.2-3${'-9.1'.repeat(3)}`), null);
  assert.equal(parsePlace('1.2-3-999999999999999.4'), null);
});
