/** The pure parts of the page's newer screens: CSV, diff, paths and columns, recognised senders, completion. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { completionOf } from './completion.ts';
import type { Names } from './completion.ts';
import { csvOf, jsonOf, tabbedOf } from './csv.ts';
import { diffLines } from './diff.ts';
import { barSOf } from './endpoint-list.ts';
import { makeColumn, nameOf, pathsOf } from './paths.ts';
import { recognised } from './guess-sender.ts';

suite('the console writes rows as CSV', () => {
  const csv = (...cells: readonly (string | null)[]): string =>
    csvOf({ columns: [{ name: 'a', type: 25 }], rows: [cells] })
      .split('\r\n')
      .slice(1, -1)
      .join('\r\n');

  test("the console's CSV keeps every digit and distinguishes NULL from an empty text", () => {
    assert.equal(
      csv('12345678901234567890', '10.00', '1e400', '-5', '+1.5e-3', null, ''),
      '12345678901234567890,10.00,1e400,-5,+1.5e-3,,""',
    );
    assert.equal(csv('a "quoted", one', 'two\nlines', ' blank'), '"a ""quoted"", one","two\nlines"," blank"');
  });

  test('nothing that the console saves as CSV or copies begins a spreadsheet formula', () => {
    const formulas = [
      '=1+1',
      '+cmd|x',
      '-2+3',
      '@SUM(A1)',
      '\t=1',
      '\r=1',
      '-1=1',
      '=HYPERLINK("http://x")',
      '"=1+1"',
    ];
    const columns = [{ name: '=evil()', type: 25 }];
    for (const formula of formulas) {
      assert.match(csv(formula), /^"?'/, formula);
      assert.match(tabbedOf({ columns, rows: [['one', formula]] }).split('\n')[1] ?? '', /^one\t'/, formula);
    }
    for (const text of [csvOf({ columns, rows: [] }), tabbedOf({ columns, rows: [['-5'], ['+1.5e-3']] })])
      assert.match(text, /^'=evil\(\)(?:\r\n|\n-5\n\+1\.5e-3\n)$/);
  });
});

test('the console saves rows as JSON with every digit, and copies them as one line each', () => {
  const table = {
    columns: [
      { name: 'n', type: 1700 },
      { name: 'say "x"', type: 25 },
      { name: 'data', type: 3802 },
      { name: 'ok', type: 16 },
    ],
    rows: [
      ['12345678901234567890.10', 'a\tb\nc', '{"a": 1.0}', 't'],
      ['NaN', null, '[]', 'f'],
    ],
  };
  const text = jsonOf(table);
  assert.match(text, /"n": 12345678901234567890\.10,.*"data": \{"a": 1\.0\}/);
  assert.deepEqual(JSON.parse(text), [
    { n: Number('12345678901234567890.10'), 'say "x"': 'a\tb\nc', data: { a: 1 }, ok: true },
    { n: 'NaN', 'say "x"': null, data: [], ok: false },
  ]);
  assert.equal(
    tabbedOf(table),
    'n\tsay "x"\tdata\tok\n12345678901234567890.10\ta b c\t{"a": 1.0}\tt\nNaN\t\t[]\tf\n',
  );
});

suite('the console compares two texts', () => {
  const shown = (a: string, b: string): string =>
    diffLines(a.split(''), b.split(''))
      .map((line) => ({ both: line.text, first: `-${line.text}`, second: `+${line.text}` })[line.in])
      .join(' ');

  test("the console's diff marks removed and added lines", () => {
    assert.equal(shown('abcdef', 'abxdef'), 'a b -c +x d e f');
    assert.equal(shown('abc', 'abc'), 'a b c');
    assert.equal(shown('', 'ab'), '+a +b');
    assert.equal(shown('aab', 'ab'), 'a -a b');
    assert.equal(shown('axbyc', 'abc'), 'a -x b -y c');
  });

  test("the console's diff of large texts is bounded in time", () => {
    const many = (seed: number) => Array.from({ length: 50_000 }, (_, i) => String((i * seed) % 7_919));
    assert.equal(diffLines(many(3), many(5)).filter((line) => line.in === 'first').length > 0, true);
  });
});

suite('the console lists the paths of a JSON document', () => {
  test("the console's JSON paths list values in objects with their kinds, without parsing numbers", () => {
    const found = pathsOf(
      '{"a":{"b\\u0022":1e400,"c":[{"d":1}],"e":true},"f":null,"g":"x","h":12345678901234567890}',
    );
    assert.deepEqual(
      found.map(({ keys, kind, sample }) => [keys.join('/'), kind, sample]),
      [
        ['a/b"', 'number', '1e400'],
        ['a/e', 'boolean', 'true'],
        ['f', 'other', 'null'],
        ['g', 'string', '"x"'],
        ['h', 'number', '12345678901234567890'],
      ],
    );
    assert.deepEqual(pathsOf('no json'), []);
    assert.equal(pathsOf(`{${Array.from({ length: 2_000 }, (_, i) => `"k${i}":1`).join(',')}}`).length, 500);
  });

  test("the console's SQL for a JSON path quotes hostile keys and names", () => {
    const sql = makeColumn(
      { schema: 'public', table: 'it"s' },
      { from: 'da"ta', keys: ["a'); DROP TABLE x; --", '}'], kind: 'number', name: 'n"; DROP TABLE y; --' },
    );
    assert.equal(
      sql,
      `ALTER TABLE public."it""s"
  ADD COLUMN "n""; DROP TABLE y; --" numeric
  GENERATED ALWAYS AS (CASE WHEN jsonb_typeof("da""ta" #> ARRAY['a''); DROP TABLE x; --', '}']) = 'number' THEN ("da""ta" #>> ARRAY['a''); DROP TABLE x; --', '}'])::numeric END) STORED`,
    );
    assert.equal(nameOf(['issue', 'ID']), 'issue_id');
    assert.equal(nameOf(["'; DROP"]), 'drop');
    assert.equal(nameOf(['1']), 'column_1');
    assert.equal(nameOf(['\u202e']), 'column');
  });
});

test('the console recognises a sender by its signature header, and not by headers that many senders use', () => {
  const sender = (id: string, headers: readonly string[]) => ({
    id,
    name: id,
    headers,
    signatureHeader: headers[0] ?? null,
  });
  const all = [
    sender('shopify', ['X-Shopify-Hmac-Sha256']),
    sender('slack', ['X-Slack-Signature', 'X-Slack-Request-Timestamp']),
    sender('bearer', ['Authorization']),
    ...[1, 2, 3, 4].map((n) => sender(`many${n}`, ['X-Many'])),
  ];
  const ids = (...names: readonly string[]) => recognised(names, all).map(({ id }) => id);
  assert.deepEqual(ids('x-shopify-hmac-sha256', 'host'), ['shopify']);
  assert.deepEqual(ids('x-slack-signature'), []);
  assert.deepEqual(ids('x-slack-signature', 'x-slack-request-timestamp'), ['slack']);
  assert.deepEqual(ids('authorization'), []);
  assert.deepEqual(ids('x-many'), []);
});

test("the console's SQL completion offers names that the role sees, where they fit", () => {
  const names: Names = {
    columns: [
      ['public', 'orders', ''],
      ['public', 'orders', 'amount'],
      ['public', 'orders', 'Amount due'],
      ['other', 'things', ''],
    ],
    secrets: ['shop_secret'],
    senders: ['shopify', 'slack'],
  };
  const at = (text: string) => completionOf(text, text.length, names)?.options;
  assert.deepEqual(at('SELECT am'), ['amount', '"Amount due"']);
  assert.deepEqual(at('SELECT orders.am'), ['amount', '"Amount due"']);
  assert.deepEqual(at('SELECT * FROM or')?.slice(0, 2), ['orders', 'ORDER']);
  assert.deepEqual(at('SELECT * FROM other.'), ['things']);
  assert.deepEqual(at('VALIDATE SECRET sh'), ['shop_secret']);
  assert.deepEqual(at('VALIDATE SECRET s USING sh'), ['shopify', 'SHOW']);
  assert.equal(at(`SELECT 'am`), undefined);
  assert.equal(at('-- am'), undefined);
  assert.equal(at('SELECT '), undefined);
  assert.equal(completionOf('SELECT am', 9, names)?.from, 7);
});

test("the console's chart has at most 101 bars for any time range", () => {
  const nowMs = Date.UTC(2026, 10, 27, 12);
  for (const hours of [0.001, 0.25, 1, 6, 24, 25, 168, 720, 5_000, 500_000, 70_000_000])
    for (const fromMs of [null, nowMs - hours * 3_600_000, 0]) {
      const barS = barSOf({ hours, fromMs, untilMs: null }, nowMs);
      assert(barS % 60 === 0 && (hours * 3_600) / barS <= 100, `${hours} h: ${barS} s`);
      const isOld = hours > 24 || fromMs === 0;
      assert.equal(barS % 3_600 === 0, isOld, `${hours} h: ${barS} s`);
    }
});
