import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { newestOf, parseNewest, printNewest } from './newest.ts';

suite('the option version', () => {
  test('the option version is parsed and printed in one form', () => {
    const forms: readonly (readonly [string, string])[] = [
      ['updated_at', 'updated_at'],
      [' updated_at ,Seq', 'updated_at, Seq'],
      ['"a, ""b""", größe', '"a, ""b""", größe'],
      ['header:X-Version', 'header:x-version'],
      ['$.a."b c"[2].d::numeric', '$.a."b c"[2].d::numeric'],
      ['$."a"::pg_lsn', '$.a::pg_lsn'],
    ];
    for (const [given, printed] of forms) {
      const places = parseNewest(given);
      assert(places !== null, given);
      assert.equal(printNewest(places), printed);
      assert.deepEqual(parseNewest(printed), places);
    }
  });

  test('the option version refuses any other text', () => {
    for (const given of [
      '',
      ' ',
      ',',
      'a,',
      'a b',
      '1a',
      '$',
      '$.a',
      '$::text',
      '$.a::int',
      '$.a::text::text',
      'a::text',
      '"',
      '""',
      'a;b',
      `a'`,
      'header:',
      'header:a b',
      'a,b,c,d,e',
      `$.${'a'.repeat(600)}::text`,
    ])
      assert.equal(parseNewest(given), null, given);
    for (const options of [
      { version: 5 },
      { version: '' },
      { version: 'a', version_equal: 'x' },
      { version: 'a', version_window: '1 year' },
    ])
      assert.throws(() => newestOf(options));
    for (const options of [{}, { version: 'off' }]) assert.equal(newestOf(options), null);
    assert.equal(newestOf({ version: 'a' })?.windowS, 7 * 86_400);
  });
});
