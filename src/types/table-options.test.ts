import assert from 'node:assert/strict';
import { test, suite } from 'node:test';
import {
  dedupeOf,
  parseDeliveryId,
  parseWindow,
  printDeliveryId,
  newestOf,
  parseNewest,
  printNewest,
} from './table-options.ts';

test("a delivery id's place is printed in the form in which it is parsed", () => {
  const read: readonly (readonly [string, string])[] = [
    ['header:X-GitHub-Delivery', 'header:x-github-delivery'],
    [' $.id ', '$.id'],
    ['$.event.id,header:a', '$.event.id, header:a'],
    ['$."a b"[0]."q\\"uo,te"', '$."a b"[0]."q\\"uo,te"'],
    ['$."plain"', '$.plain'],
    ['$[3].id', '$[3].id'],
  ];
  for (const [given, printed] of read) {
    const parts = parseDeliveryId(given);
    assert(parts !== null, given);
    assert.equal(printDeliveryId(parts), printed);
    assert.deepEqual(parseDeliveryId(printed), parts);
  }
});

test('the option dedupe refuses malformed places of a delivery id', () => {
  const many = Array.from({ length: 5 }, () => '$.a').join(',');
  for (const given of [
    '',
    ',',
    '$',
    '$.',
    'id',
    'header:',
    'header:a b',
    '$.a,',
    '$..a',
    '$.a b',
    '$[*]',
    '$.a[-1]',
    '$."\\x"',
    '$.1',
    many,
    `$.${'a'.repeat(600)}`,
  ])
    assert.equal(parseDeliveryId(given), null, given);
});

test('a dedupe window is a number and a unit, within bounds', () => {
  assert.equal(parseWindow('7 days'), 604_800);
  assert.equal(parseWindow('12 Hours'), 43_200);
  assert.equal(parseWindow('60 seconds'), 60);
  assert.equal(parseWindow('1minute'), 60);
  for (const given of ['', '59 seconds', '91 days', '1 week', '-1 day', '1.5 days', '7', '99999999999 days'])
    assert.equal(parseWindow(given), null, given);
});

test('the dedupe options of a table are parsed', () => {
  assert.equal(dedupeOf({}), null);
  assert.equal(dedupeOf({ dedupe: 'off', dedupe_window: '1 day' }), null);
  assert.deepEqual(dedupeOf({ dedupe: 'header:A, $.b', dedupe_window: '1 day' }), {
    parts: [{ header: 'a' }, { path: ['b'] }],
    headers: new Set(['a']),
    windowS: 86_400,
    shown: 'header:a, $.b',
  });
  assert.throws(() => dedupeOf({ dedupe: 'nowhere' }), /cannot be read/);
});

suite('the option version names parts of a row', () => {
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

  test('the option version refuses malformed text', () => {
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
