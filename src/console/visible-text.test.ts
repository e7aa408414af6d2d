import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { prettyJson } from './pretty.ts';
import { identifier, literal, shellWord } from './quote.ts';
import { aboutText, agoText, counted, cut, digitsText, hexLines, pieces, sizeText } from './visible-text.ts';
import { createEndpoint } from './new-endpoint.ts';
import { anyKept } from './request-filter.ts';
import { explainValidate, listHandshakes, listKept } from './request-statements.ts';
import { addressOf, wordsOf } from './list-address.ts';
import { mayHoldSecret, withoutSecrets } from './statements.ts';

const shown = (text: string) =>
  pieces(text)
    .map((piece) => (piece.mark ? `[${piece.text}]` : piece.text))
    .join('');

test('the console marks an estimated row count, and shows at most three digits of it', () => {
  const texts = [
    '1',
    '9999',
    '10000',
    '38449',
    '640000',
    '999499',
    '999500',
    '1200000',
    '41000000',
    '1234567890',
    null,
  ];
  assert.deepEqual(texts.map(aboutText), [
    '≈ 1',
    '≈ 9\u202f999',
    '≈ 10 k',
    '≈ 38 k',
    '≈ 640 k',
    '≈ 999 k',
    '≈ 1.0 M',
    '≈ 1.2 M',
    '≈ 41 M',
    '≈ 1.2 G',
    '–',
  ]);
});

test('the console shows invisible characters as marks, and other text unchanged', () => {
  assert.equal(shown('a\u202eb\u200bc\u0000d\u001b[31m'), 'a[U+202E]b[U+200B]c[U+0000]d[U+001B][31m');
  assert.equal(shown('\ud800 é 中 😀\n\t<b>&amp;'), '[U+D800] é 中 😀\n\t<b>&amp;');
  for (const char of '\u061c\u200e\u2028\u2029\u2066\u2069\ufeff\u00ad\u007f\u0085') {
    assert.equal(pieces(char).length === 1 && pieces(char)[0]?.mark, true, char.codePointAt(0)?.toString(16));
  }
});

test('the console never cuts a text between the halves of a character', () => {
  assert.deepEqual(cut('ab😀', 3), { text: 'ab', whole: false });
  assert.deepEqual(cut('ab', 2), { text: 'ab', whole: true });
});

const pretty = (text: string) =>
  prettyJson(text)
    ?.map((token) => token.text)
    .join('') ?? null;

test("the console's pretty-printed JSON is indented with its digits unchanged", () => {
  const text = '{"a":12345678901234567890,"b":[10.00,1e400,-0],"c":{},"d":[ ],"e":"\\u0031 \\" :,{"}';
  assert.equal(
    pretty(text),
    '{\n  "a": 12345678901234567890,\n  "b": [\n    10.00,\n    1e400,\n    -0\n  ],\n  "c": {},\n  "d": [],\n  "e": "\\u0031 \\" :,{"\n}',
  );
  for (const wrong of [
    '',
    ' ',
    '{',
    '[1,]',
    '{"a":}',
    '{"a" 1}',
    '{1:2}',
    '1 2',
    '[}',
    ']',
    'tru',
    '01',
    '"',
    ',',
    '{,}',
    '[1:2]',
  ]) {
    assert.equal(prettyJson(wrong), null, wrong);
  }
  assert.notEqual(prettyJson('['.repeat(512) + ']'.repeat(512)), null);
  assert.equal(prettyJson('['.repeat(513) + ']'.repeat(513)), null);
  assert.equal(prettyJson('['.repeat(1_000_000)), null);
});

test("the console's pretty-printing accepts exactly what JSON.parse accepts, with the same meaning", () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      assert.deepEqual(JSON.parse(pretty(text) ?? 'nothing'), JSON.parse(text));
    }),
  );
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...Array.from('{}[]:,"1 a')) }), (text) => {
      let isJson = true;
      try {
        JSON.parse(text);
      } catch {
        isJson = false;
      }
      assert.equal(prettyJson(text) !== null, isJson, text);
    }),
  );
});

test('the console formats sizes, durations and counts for people', () => {
  assert.deepEqual(
    [sizeText(0), sizeText(999), sizeText(1536), sizeText(25_000_000)],
    ['0 B', '999 B', '1.5 kB', '25.0 MB'],
  );
  assert.deepEqual(
    [agoText(-5), agoText(12_400), agoText(3_600_000), agoText(200_000_000)],
    ['just now', '12 s ago', '60 min ago', '2 days ago'],
  );
  assert.equal(digitsText('12345678901234567890').replaceAll('\u202f', '_'), '12_345_678_901_234_567_890');
  assert.equal(hexLines(Buffer.from('a\n\xff', 'latin1')), `00000000  61 0a ff${' '.repeat(39)}  a..`);
});

test("the console's SQL and shell quoting round-trips any name and text", () => {
  assert.equal(identifier('plain_1'), 'plain_1');
  assert.equal(identifier('select'), '"select"');
  assert.equal(identifier('a"; DROP TABLE x; --'), '"a""; DROP TABLE x; --"');
  assert.equal(literal("it's \\ "), "'it''s \\ '");
  assert.equal(shellWord("a'b $(x)"), `'a'\\''b $(x)'`);
  assert.equal(shellWord("a\u0003\n'\u009b\\"), String.raw`$'a\x03\x0a\x27\xc2\x9b\x5c'`);
});

test("the console's request filters become SQL conditions, only those that are set", () => {
  const slice = { from: null, max: 10, scanned: 100 };
  assert.doesNotMatch(listKept(anyKept, slice) ?? '', /rejected_requests\s+WHERE/);
  const hostile = { ...anyKept, code: "x' OR ''='", checked: 'no', text: "a'" };
  const sql = listKept(hostile, { ...slice, from: [1_000, "r9'"] }) ?? '';
  assert.match(sql, /code = 'x'' OR ''''='''/);
  assert.match(sql, /NOT authenticated/);
  assert.match(sql, /strpos\(lower\(reason\), lower\('a'''\)\)/);
  const next = listKept(anyKept, { ...slice, from: [1_000, 'r9'] }) ?? '';
  assert.match(next, /\(received_at, id\) < \(timestamptz '1970-01-01T00:00:01.000Z', 9::bigint\)/);
  // What is about other requests is not asked of the database.
  assert.equal(listKept({ ...anyKept, result: 'stored' }, slice), null);
  assert.equal(listHandshakes({ ...anyKept, result: 'refused' }, slice), null);
});

test('the console hides the value of a secret in a statement, and shows the rest', () => {
  const sql = createEndpoint({
    table: 'T 1',
    check: { kind: 'sender', id: 'github' },
    secret: { kind: 'new', name: 's', value: "it's; secret" },
    answer: null,
    columns: ["event TEXT GENERATED ALWAYS AS (data->>'type') STORED"],
    includes: ["INCLUDE HEADER 'x-id' AS delivery_id"],
    format: 'json',
    once: true,
    spool: true,
    arrival: true,
    whole: true,
  });
  const table = `CREATE TABLE "T 1" (
  data JSONB,
  event TEXT GENERATED ALWAYS AS (data->>'type') STORED
)
  INCLUDE HEADER 'x-id' AS delivery_id
  INCLUDE TIMESTAMP AS received_at
  INCLUDE HEADERS AS headers
  INCLUDE BODY AS raw
  WITH (connector = 'webhook', dedupe = 'sender', spool = 'fallback')
  VALIDATE SECRET s USING github;
COMMIT;`;
  assert.equal(sql, `BEGIN;\nCREATE SECRET s WITH (backend = 'meta') AS 'it''s; secret';\n${table}`);
  assert.equal(
    withoutSecrets(sql),
    `BEGIN;\nCREATE SECRET s WITH (backend = 'meta') AS '********';\n${table}`,
  );
  assert.equal(withoutSecrets("ALTER SECRET a.b AS 'x'"), "ALTER SECRET a.b AS '********'");
  for (const name of [`"it's"`, '"a;b"', '"as ""it"""'])
    assert.equal(withoutSecrets(`ALTER SECRET a.${name} AS 'x'`), `ALTER SECRET a.${name} AS '********'`);
});

test('the console does not remember a statement that may hold a secret, however it is quoted', () => {
  for (const sql of [
    "CREATE SECRET s WITH (backend = 'meta') AS 'x'",
    'ALTER SECRET s AS $$x$$',
    `alter secret "a;b" as 'x'`,
    "ALTER SECRET s /* ; */ AS E'x'",
    'ALTER ROLE r PASSWORD $p$x$p$',
    `CREATE USER MAPPING FOR r SERVER s OPTIONS ("password" 'x')`,
  ])
    assert.ok(mayHoldSecret(sql), sql);
  for (const sql of ["SELECT 'x'", 'SHOW SECRETS', 'DROP SECRET s', "SELECT 'x' FROM password"])
    assert.ok(!mayHoldSecret(sql), sql);
});

test('a request list URL with any filters has a title', () => {
  const titleOf = (words: string): string => wordsOf(addressOf(new URLSearchParams(words)), (id) => id);
  assert.equal(titleOf('result=later&table=t'), 'told to come again, t');
  for (const word of ['constructor', '__proto__', 'x'])
    assert.equal(titleOf(`result=${word}&range=${word}`), word.toLowerCase());
});

test('the endpoint parameter of a request list URL is read as schema and table', () => {
  const of = (words: string) => addressOf(new URLSearchParams(words));
  assert.deepEqual(
    of('endpoint=public.payments&result=refused'),
    of('schema=public&table=payments&result=refused'),
  );
  assert.deepEqual(of('endpoint=s.a.b'), of('schema=s&table=a.b'));
  assert.deepEqual(of('endpoint=public.a&schema=s&table=t'), of('schema=s&table=t'));
  assert.deepEqual(of('endpoint=a'), of(''));
});

test('EXPLAIN VALIDATE from the console keeps repeated headers separate', () => {
  const parts = { body: 'e30=', url: '', method: 'POST', now: '' };
  const sql = explainValidate(
    { schema: 'public', table: 't' },
    {
      ...parts,
      headers: [
        ['a', "1'"],
        ['b', '2'],
        ['a', '3'],
      ],
    },
  );
  assert.match(sql, /headers = '\{"a":\["1''","3"\],"b":"2"\}'/);
});

test('the console counts in the singular for one, and in the plural otherwise', () => {
  const texts = [0, 1, 2, 12_345].map((count) => counted(count, 'row'));
  assert.deepEqual(texts, ['0 rows', '1 row', '2 rows', '12\u202f345 rows']);
});
