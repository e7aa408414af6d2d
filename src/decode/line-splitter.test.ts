import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Refused } from '../errors/refusals.ts';
import { LineSplitter } from './line-splitter.ts';

test('the line splitter gives the same lines and numbers for any chunks', () => {
  const line = fc.string({ maxLength: 20 }).map((s) => s.replaceAll('\n', ' '));
  fc.assert(
    fc.property(fc.array(line, { maxLength: 12 }), fc.array(fc.nat(7)), (lines, cuts) => {
      const body = Buffer.from(lines.join('\n'));
      const splitter = new LineSplitter(1_000);
      const blocks = [];
      let at = 0;
      for (const cut of [...cuts, body.length]) {
        const block = splitter.push(body.subarray(at, at + cut));
        at += cut;
        if (block !== null) blocks.push(block);
      }
      const rest = splitter.end();
      if (rest !== null) blocks.push(rest);
      assert.equal(Buffer.concat(blocks.map(({ bytes }) => bytes)).toString(), body.toString());
      let number = 1;
      for (const { bytes, firstLine } of blocks) {
        assert.equal(firstLine, number);
        number += bytes.toString().split('\n').length - 1;
      }
      for (const { bytes } of blocks.slice(0, -1)) assert.equal(bytes.at(-1), 10);
    }),
    { numRuns: 2_000 },
  );
});

test('a batch line that is too long is refused with its number, in any chunks', () => {
  const tooLong = (error: unknown) =>
    error instanceof Refused &&
    error.refusal.code === 'body_too_large' &&
    error.message.startsWith('line 3: ');
  for (const size of [1, 3, 10]) {
    const splitter = new LineSplitter(10);
    const body = Buffer.from('0123456789\n\n0123456789x\n');
    assert.throws(() => {
      for (let at = 0; at < body.length; at += size) splitter.push(body.subarray(at, at + size));
    }, tooLong);
  }
});
