import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { bytesOfChars, charsBefore } from './errors.ts';
import { anyCharacter } from '../../test/support/characters.ts';

test('error positions in UTF-8 count code points', () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), fc.nat({ max: 40 }), (text, chars) => {
      const points = Array.from(text).slice(0, chars);
      const bytes = Buffer.byteLength(points.join(''));
      const latin1 = Buffer.from(text).toString('latin1');
      assert.equal(bytesOfChars(latin1, chars, 'UTF8'), bytes);
      assert.equal(charsBefore(latin1, bytes, 'UTF8'), points.length);
    }),
  );
});

test("an error offset inside a character gives that character's position", () => {
  assert.equal(charsBefore('aÃ©b', 2, 'UTF8'), 1);
});

test('error positions in other client encodings count characters', () => {
  const cases: [string, number[], number[]][] = [
    ['LATIN1', [0xe9, 0x61], [1, 2]],
    ['EUC_JP', [0x8f, 0xa1, 0xa1, 0xa4, 0xa2, 0x61], [3, 5, 6]],
    ['SJIS', [0xb1, 0x83, 0x5c, 0x61], [1, 3, 4]],
    ['BIG5', [0xa4, 0x5c, 0x61], [2, 3]],
    ['GB18030', [0x81, 0x30, 0x81, 0x30, 0x81, 0x40, 0x61], [4, 6, 7]],
  ];
  for (const [encoding, bytes, ends] of cases) {
    const text = Buffer.from(bytes).toString('latin1');
    ends.forEach((end, index) => assert.equal(bytesOfChars(text, index + 1, encoding), end, encoding));
  }
});
