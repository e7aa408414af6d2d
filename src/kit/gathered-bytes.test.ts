import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Gathered } from './gathered-bytes.ts';
import { freeBuffer } from './free-buffer.ts';

test('gathered chunks of any sizes give the same bytes in order', () => {
  const size = fc.oneof(fc.nat(10), fc.nat(5_000), fc.integer({ min: 30_000, max: 70_000 }));
  fc.assert(
    fc.property(fc.array(size, { maxLength: 60 }), (sizes) => {
      const gathered = new Gathered();
      const pieces = sizes.map((bytes, i) => Buffer.alloc(bytes, i + 1));
      const expected = Buffer.concat(pieces);
      for (const piece of pieces) gathered.add(piece);
      assert.equal(gathered.length, expected.length);
      assert.equal(gathered.pieces, sizes.length);
      assert.ok(gathered.done().equals(expected));
    }),
  );
});

test('gathering a million single bytes takes less than 64 MB of memory', () => {
  const gathered = new Gathered();
  const before = process.memoryUsage();
  for (let i = 0; i < 1_000_000; i++) gathered.add(Buffer.from([i]));
  const { arrayBuffers, heapUsed } = process.memoryUsage();
  // What is left of those that were added may not have been collected yet; kept, they would be some 200 MB.
  assert.ok(arrayBuffers + heapUsed - before.arrayBuffers - before.heapUsed < 64_000_000);
  assert.equal(gathered.done().length, 1_000_000);
});

test('gathered bytes are released if nothing is made of them', () => {
  const gathered = new Gathered();
  const pieces = Array.from({ length: 3 }, () => Buffer.alloc(65_536));
  for (const piece of pieces) gathered.add(piece);
  gathered.drop();
  assert.deepEqual(
    pieces.map(({ length }) => length),
    [0, 0, 0],
  );
});

test('gathered bytes that grow large are written to one buffer and released as a whole', () => {
  const piece = () => Buffer.alloc(65_536, 7);
  const small = new Gathered();
  small.add(piece());
  const gathered = new Gathered();
  const pieces = Array.from({ length: 1_100 }, piece);
  for (const it of pieces) gathered.add(it);
  // More than what was taken for it at first: it has grown, and nothing of the pieces is left.
  assert.ok(gathered.length > 2 * 33 * 2 ** 20);
  assert.ok(pieces.every(({ length }) => length === 0));
  const whole = gathered.done();
  assert.equal(whole.length, 1_100 * 65_536);
  assert.ok(whole.equals(Buffer.alloc(whole.length, 7)));
  freeBuffer(whole.subarray(1));
  assert.equal(whole.length, 1_100 * 65_536);
  freeBuffer(whole);
  assert.equal(whole.length, 0);
  assert.equal(gathered.done().length, 0);
  assert.equal(small.done().length, 65_536);
});

test('gathered bytes announced as large use one buffer from the first MiB on', () => {
  const large = new Gathered(25 * 2 ** 20);
  const small = new Gathered(2 * 2 ** 20);
  const [ofLarge, ofSmall] = [large, small].map((gathered) => {
    const pieces = Array.from({ length: 17 }, () => Buffer.alloc(65_536, 1));
    for (const piece of pieces) gathered.add(piece);
    return pieces;
  });
  assert.ok(ofLarge?.every(({ length }) => length === 0));
  assert.ok(ofSmall?.every(({ length }) => length === 65_536));
  assert.deepEqual(large.done(), small.done());
});
