import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Elements, isString, Members, skipSpace, skipValue, stringAt, unsigned64At } from './json-walk.ts';

/** JSON text with blanks, escapes and duplicate keys of one's choice, beside what it means. */
const blank = fc.constantFrom('', '', ' ', '\n', '\r\n\t');
const text = fc.string({ unit: 'binary', maxLength: 6 });
const key = fc.oneof(fc.constantFrom('a', 'b', '', '"', '\\', 'é', '__proto__'), text);
const value = fc.oneof(
  fc.constantFrom('0', '-1.50', '1e400', 'true', 'false', 'null', '""', '"\\u007d]"', '[]', '{ }'),
  fc.jsonValue().map((json) => JSON.stringify(json)),
  fc.jsonValue().map((json) => JSON.stringify(json, null, 2)),
);
const spelled = (s: string, escaped: boolean) =>
  escaped
    ? `"${Array.from({ length: s.length }, (_, i) => `\\u${s.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
    : JSON.stringify(s);

test('gives every member of an object in order, keys decoded, values as they stand', () => {
  const members = fc.array(fc.tuple(key, fc.boolean(), value, blank, blank), { maxLength: 6 });
  fc.assert(
    fc.property(members, blank, (written, before) => {
      const inner = written.map(([k, escaped, v, b, c]) => `${b}${spelled(k, escaped)}${c}:${b}${v}${c}`);
      const bytes = Buffer.from(`${before}{${inner.join(',')}${before}}${before}`);
      const walk = new Members(bytes, skipSpace(bytes, 0));
      const found: [string, string][] = [];
      while (walk.next()) {
        found.push([walk.key(), bytes.toString('utf8', walk.valueStart, walk.valueEnd)]);
        assert.ok(walk.keyIs(Buffer.from(walk.key())));
        assert.ok(!walk.keyIs(Buffer.from(`${walk.key()}x`)));
      }
      assert.deepEqual(
        found,
        written.map(([k, , v]) => [k, v]),
      );
      assert.equal(skipValue(bytes, skipSpace(bytes, 0)), bytes.length - before.length);
    }),
    { numRuns: 2_000 },
  );
});

test('gives every element of an array, and strings as they are meant', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(value, blank)), (written) => {
      const bytes = Buffer.from(`[${written.map(([v, b]) => `${b}${v}${b}`).join(',')} ]`);
      const walk = new Elements(bytes, 0);
      const found: string[] = [];
      while (walk.next()) {
        const element = bytes.toString('utf8', walk.start, walk.end);
        found.push(element);
        if (isString(bytes, walk.start))
          assert.equal(stringAt(bytes, walk.start, walk.end), JSON.parse(element));
      }
      assert.deepEqual(
        found,
        written.map(([v]) => v),
      );
    }),
    { numRuns: 2_000 },
  );
});

test('a walk over anything at all ends', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array(),
        fc.array(fc.constantFrom(...'{}[]",:\\ 1n'.split(''))).map((a) => Buffer.from(a.join(''))),
      ),
      (input) => {
        const bytes = Buffer.from(input);
        const members = new Members(bytes, 0);
        let steps = 0;
        while (members.next()) assert.ok(++steps <= bytes.length);
        const elements = new Elements(bytes, 0);
        steps = 0;
        while (elements.next()) assert.ok(++steps <= bytes.length);
      },
    ),
    { numRuns: 5_000 },
  );
});

test('whole numbers up to 2^64 - 1 are exact, all else is none', () => {
  const read = (s: string) => unsigned64At(Buffer.from(s), 0, s.length);
  for (const n of [0n, 1n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n]) assert.equal(read(n.toString()), n);
  for (const s of [
    '',
    '-1',
    '1.0',
    '1e3',
    '"1"',
    '18446744073709551616',
    '99999999999999999999',
    'null',
    '1 ',
  ])
    assert.equal(read(s), null, s);
});
