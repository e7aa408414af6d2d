import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isString, Members, skipSpace, skipValue, stringAt } from './json-walk.ts';
import { anyCharacter } from '../../test/support/characters.ts';

/** JSON text with blanks, escapes and duplicate keys of one's choice, beside what it means. */
const blank = fc.constantFrom('', '', ' ', '\n', '\r\n\t');
const text = fc.string({ unit: anyCharacter, maxLength: 6 });
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

test("the JSON walk yields an object's members in order, with decoded keys and strings and raw values", () => {
  const members = fc.array(fc.tuple(key, fc.boolean(), value, blank, blank), { maxLength: 6 });
  fc.assert(
    fc.property(members, blank, (written, before) => {
      const inner = written.map(([k, escaped, v, b, c]) => `${b}${spelled(k, escaped)}${c}:${b}${v}${c}`);
      const bytes = Buffer.from(`${before}{${inner.join(',')}${before}}${before}`);
      const walk = new Members(bytes, skipSpace(bytes, 0));
      const found: [string, string][] = [];
      while (walk.next()) {
        const { valueStart, valueEnd } = walk;
        const value = bytes.toString('utf8', valueStart, valueEnd);
        found.push([walk.key(), value]);
        if (isString(bytes, valueStart))
          assert.equal(stringAt(bytes, valueStart, valueEnd), JSON.parse(value));
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

test('the JSON walk ends for any input', () => {
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
      },
    ),
    { numRuns: 5_000 },
  );
});
