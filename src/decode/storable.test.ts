import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { storable } from './storable.ts';

/** What JavaScript makes of the same text: the Unicode standard's replacement of what is not well-formed. */
function replaced(text: string): string {
  return (text as string & { toWellFormed(): string }).toWellFormed().replaceAll('\0', '\ufffd');
}

test('text that jsonb cannot hold is replaced as by toWellFormed, and other text is unchanged', () => {
  const unit = fc.constantFrom(
    '\0',
    '\ud800',
    '\udbff',
    '\udc00',
    '\udfff',
    'u',
    '0',
    '\\',
    '"',
    'é',
    '😀',
    '\ufffd',
    '\n',
  );
  fc.assert(
    fc.property(fc.string({ unit }), fc.boolean(), (text, inUpperCase) => {
      // JSON.stringify escapes lone surrogates only: the pairs, too, may be escaped.
      const escaped = JSON.stringify([text, { [text]: 1 }]).replaceAll(/[\u0080-\uffff]/g, (char) => {
        const hex = char.charCodeAt(0).toString(16).padStart(4, '0');
        return `\\u${inUpperCase ? hex.toUpperCase() : hex}`;
      });
      const read = JSON.parse(storable(Buffer.from(escaped)).toString('utf8')) as unknown;
      assert.deepEqual(read, [replaced(text), { [replaced(text)]: 1 }]);
    }),
    { numRuns: 2_000 },
  );
});

test('invalid UTF-8 is replaced as by a TextDecoder, and a storable document is not copied', () => {
  const broken = Buffer.from([0x22, 0x61, 0xff, 0xe2, 0x82, 0x22]);
  assert.deepEqual(storable(broken), Buffer.from(new TextDecoder().decode(broken)));
  const plain = Buffer.from('{"a":"\\ud83d\\ude00 \\\\u0000 é"}');
  assert.equal(storable(plain), plain);
});
