import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { assertRefused, fromBytes, testRooms, toBytes, utf8 } from '../../test/support/ddl-rooms.ts';
import type { Rewrite } from '../types/sql.ts';
import { limits } from '../config/limits.ts';
import { createRewriter } from './rewrite.ts';

function rewritten(sql: string, session = utf8, deps = testRooms()): Extract<Rewrite, { kind: 'rewritten' }> {
  const result = createRewriter(deps)(toBytes(sql), session);
  assert.equal(result?.kind, 'rewritten', `${sql}: ${JSON.stringify(result)}`);
  return result as Extract<Rewrite, { kind: 'rewritten' }>;
}

const webhook = "CREATE TABLE t (data JSONB) WITH (connector = 'webhook')";

const native = [
  '',
  ';',
  'SELECT 1',
  "SELECT 'CREATE SECRET s WITH (backend = ''meta'') AS ''x'''; SELECT 2",
  "DO $$ BEGIN EXECUTE 'SHOW TABLES'; CREATE SECRET s; END $$",
  '/* ; CREATE SECRET s */ SELECT 1 -- ; FLUSH\n; SELECT 2',
  'SHOW search_path',
  'SHOW ALL; SHOW CREATE VIEW v',
  'CREATE TABLE t (data jsonb) WITH (fillfactor = 70)',
  'ALTER TABLE t SET (fillfactor = 70, autovacuum_enabled = off); ALTER TABLE t SET SCHEMA format',
  'CREATE TABLE connector (secret text, validate text) WITH (fillfactor = 70)',
  'CREATE TABLE t (a) AS SELECT validate AS secret FROM x',
  'CREATE TABLE t AS WITH x AS (SELECT 1 AS connector) SELECT * FROM x WHERE connector = 1',
  'CREATE TEMP TABLE t (connector text)',
  'ALTER TABLE t VALIDATE CONSTRAINT c',
  'ALTER TABLE IF EXISTS ONLY s."validate" VALIDATE CONSTRAINT c',
  'ALTER TABLE t DROP VALIDATE CASCADE',
  'ALTER TABLE t DROP validate, ADD COLUMN secret int',
  'ALTER TABLE t ADD COLUMN validate int',
  'CREATE DATABASE app',
  'ALTER DATABASE app SET search_path TO public',
  'CREATE TABLE secret (a int); DROP TABLE secret; ALTER TABLE secret RENAME TO validate',
  'SELECT 1; DESCRIBED; FLUSHED',
  "SELECT 'unterminated; CREATE SECRET s",
];
for (const sql of native) {
  test(`the rewriter leaves to PostgreSQL: ${sql}`, () =>
    assert.equal(createRewriter(testRooms())(sql, utf8), null));
}

const ours: [string, (string | null)[]][] = [
  [webhook, ['CREATE TABLE']],
  [webhook.replace("'webhook'", "'webhook',"), ['CREATE TABLE']],
  [`begin; ${webhook}; ; SELECT ';'; commit;`, [null, 'CREATE TABLE']],
  [
    '/* a */ create /* b; */ unlogged -- c\n table t(data jsonb)with(connector=$$webhook$$)',
    ['CREATE TABLE'],
  ],
  [
    'CREATE TABLE IF NOT EXISTS a.b.t ("Größe" pg_catalog.jsonb NOT NULL CHECK (true)) WITH ("connector" = "webhook")',
    ['CREATE TABLE'],
  ],
  [
    "CREATE TABLE t (exclude jsonb, EXCLUDE USING hash (exclude WITH =)) WITH (connector = 'webhook')",
    ['CREATE TABLE'],
  ],
  [`${webhook} VALIDATE SECRET a, app."B" AS a = 'x'`, ['CREATE TABLE']],
  ["CREATE SECRET IF NOT EXISTS app.s WITH (backend = 'meta') AS 'x'", ['CREATE SECRET']],
  ['CREATE SECRET s WITH (backend = \'meta\') AS "x"', ['CREATE SECRET']],
  ["ALTER SECRET s AS 'x'; ALTER SECRET s WITH (backend = meta) AS $$x$$", ['ALTER SECRET', 'ALTER SECRET']],
  ['DROP SECRET IF EXISTS app.s; drop secret s', ['DROP SECRET', 'DROP SECRET']],
  [
    "ALTER TABLE IF EXISTS app.t VALIDATE AS a = 'x'; ALTER TABLE t DROP VALIDATE",
    ['ALTER TABLE', 'ALTER TABLE'],
  ],
  ['show tables; Show Secrets; DESCRIBE t; FLUSH', ['SHOW', 'SHOW', 'DESCRIBE', 'FLUSH']],
];
for (const [sql, tags] of ours) {
  test(`the rewriter rewrites: ${sql}`, () => {
    const result = rewritten(sql);
    assert.deepEqual(result.tags, tags);
    assert.doesNotMatch(result.sql, /VALIDATE (SECRET|AS)|connector\s*=|CREATE SECRET [is]/i);
  });
}

test("SHOW CREATE TABLE carries later changes of the table's senders", async () => {
  const former = () => Promise.resolve({ 4711: 'since then: ‘more’' });
  const show = createRewriter({ ...testRooms(), former })('SHOW CREATE TABLE app.t', utf8);
  assert.ok(show?.kind === 'deferred');
  const { sql, tags } = await show.prepare();
  assert.deepEqual(tags, ['SHOW']);
  assert.match(sql, /^SELECT \* FROM headgate\.show_create_table\(.*app.*regclass, .*\\u2018more/);
});

/** ¶ stands where the error points at. */
const refused: [string, string, RegExp][] = [
  ["CREATE SECRET s WITH (backend = 'meta') AS¶", '42601', /^syntax error at end of input$/],
  ["CREATE SECRET s WITH (backend = 'meta') AS¶;", '42601', /at or near ";"$/],
  ["CREATE SECRET s WITH (backend = 'meta') AS 'a' ¶junk", '42601', /at or near "junk"$/],
  ["CREATE SECRET s WITH (backend = 'meta') AS ¶''", '22023', /must not be empty/],
  ["CREATE SECRET s WITH (backend = ¶'vault') AS 'a'", '22023', /"vault" is not known/],
  ["CREATE SECRET s WITH (backend = 'meta', ¶x = 1) AS 'a'", '22023', /unknown option "x"/],
  ["CREATE SECRET s ¶AS 'a'", '42601', /at or near "AS"/],
  ["CREATE ¶OR REPLACE SECRET s WITH (backend = 'meta') AS 'a'", '42601', /at or near "OR"/],
  ["EXPLAIN (COSTS off) CREATE ¶SECRET s WITH (backend = 'meta') AS 'a'", '42601', /at or near "SECRET"/],
  ["explain analyze alter ¶secret s as 'a'", '42601', /at or near "secret"/],
  ["SELECT 1; PREPARE p (text) AS CREATE ¶SECRET s AS 'a'", '42601', /at or near "SECRET"/],
  ["CREATE SECRET s ¶'top secret'", '42601', /^syntax error at or near "'\*{8}'"$/],
  [
    "CREATE SECRET s WITH (backend = 'meta') AS ¶'top secret",
    '42601',
    /^unterminated quoted string at or near "'"$/,
  ],
  [
    "CREATE SECRET s WITH (backend = 'meta') AS ¶$a$top secret$b$",
    '42601',
    /^unterminated dollar-quoted string at or near "\$a\$"$/,
  ],
  ["CREATE SECRET s WITH (backend = 'meta') AS ¶$1", '42P02', /parameters are not allowed/],
  ["CREATE SECRET s WITH (backend = 'meta') AS ¶E'\\u00zz'", '22025', /Unicode escape/],
  ['DROP SECRET ¶U&"s"', '0A000', /U&/],
  ['DROP SECRET s ¶CASCADE', '42601', /at or near "CASCADE"/],
  [`${webhook} VALIDATE SECRET s USING ¶gitlob`, '22023', /^unknown sender "gitlob"$/],
  [`${webhook} VALIDATE SECRET s USING ¶"GitHub"`, '22023', /^unknown sender "GitHub"$/],
  [`${webhook} VALIDATE SECRET s USING github ¶AS a`, '42601', /at or near "AS"/],
  [`${webhook} VALIDATE SECRET s USING¶`, '42601', /end of input/],
  [`${webhook} VALIDATE ¶USING github`, '42601', /at or near "USING"/],
  [`${webhook} VALIDATE SECRET nope USING ¶github`, '42883', /nope/],
  [`${webhook} VALIDATE SECRET s, ¶app.s AS a`, '42712', /"s" is already taken/],
  [`${webhook} VALIDATE SECRET ¶headers AS a`, '42712', /"headers"/],
  [`${webhook} VALIDATE AS¶`, '42601', /end of input/],
  [`${webhook} VALIDATE AS 'é' = ¶nope(1)`, '42883', /nope/],
  ["SELECT 'é'; ALTER TABLE t VALIDATE AS /* é */ ¶nope(1)", '42883', /nope/],
  ['ALTER TABLE t VALIDATE ¶x', '42601', /at or near "x"/],
  ['ALTER TABLE t VALIDATE AS a = ¶$1', '42P02', /parameters/],
  [
    "ALTER TABLE t SET (¶connector = 'webhook')",
    '22023',
    /^option "connector" is given to CREATE TABLE only$/,
  ],
  ['ALTER TABLE t SET (¶is_batched = true)', '22023', /^option "is_batched" is given to CREATE TABLE only$/],
  ["ALTER TABLE IF EXISTS a.t SET (keep = 'all', ¶format = 'text')", '22023', /^option "format" is given/],
  ['ALTER TABLE t RESET (keep, ¶into)', '22023', /^option "into" is given/],
  ['ALTER TABLE t RESET (¶webhook.wait_for_persistence)', '22023', /persistence" is given/],
  ['ALTER TABLE t SET (¶webhook.other = 1)', '22023', /^unknown option "webhook\.other"/],
  ['SHOW TABLES ¶x', '42601', /at or near "x"/],
  ['DESCRIBE¶', '42601', /end of input/],
  ['FLUSH ¶é', '42601', /at or near "é"/],
];
for (const [marked, sqlstate, message] of refused) {
  test(`the rewriter refuses: ${marked}`, () => assertRefused(marked, sqlstate, message));
}

test('a rewritten CREATE SECRET holds its value in sealed form only, in any spelling', () => {
  const spellings: ((value: string) => string)[] = [
    (value) => `'${value.replaceAll("'", "''")}'`,
    (value) => `"${value.replaceAll('"', '""')}"`,
    (value) => `E'${value.replace(/['\\]/g, '\\$&').replaceAll('\n', '\\n')}'`,
    (value) =>
      `E'${[...Buffer.from(value)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}'`,
    (value) =>
      `E'${Array.from(value, (char) => `\\U${char.codePointAt(0)?.toString(16).padStart(8, '0')}`).join('')}'`,
    (value) => `'${value.slice(0, 3).replaceAll("'", "''")}' \n '${value.slice(3).replaceAll("'", "''")}'`,
    (value) => `$tag$${value}$tag$`,
  ];
  const value = fc
    .string({ unit: 'grapheme', minLength: 4, maxLength: 30 })
    .filter((it) => !/\0|\$tag\$|\$$|[\ud800-\udfff]/.test(it));
  fc.assert(
    fc.property(value, fc.constantFrom(...spellings), (value, spell) => {
      const deps = testRooms();
      const { sql } = rewritten(`CREATE SECRET s WITH (backend = 'meta') AS ${spell(value)}`, utf8, deps);
      assert.deepEqual(deps.sealed, [
        { identity: 'secret:s:00000000-0000-4000-8000-000000000001', plaintext: value },
      ]);
      assert.ok(!/[^\s\w$(,.]{3}/.test(value) || !fromBytes(sql).includes(value));
    }),
  );
});

test('CREATE SECRET accepts a value of the maximum length and refuses a longer one', () => {
  const create = (value: string): Rewrite | null =>
    createRewriter(testRooms())(`CREATE SECRET s WITH (backend = 'meta') AS '${value}'`, utf8);
  assert.equal(create('x'.repeat(limits.secretBytesMax))?.kind, 'rewritten');
  assert.equal(create('x'.repeat(limits.secretBytesMax + 1))?.kind, 'error');
});

test("USING becomes the sender's expression, once for each secret", () => {
  // As GitHub documents it: "sha256=" and the HMAC-SHA256 of the body, in hexadecimal digits.
  const signed = (secret: string) =>
    `secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(${secret}, payload, 'sha256'), 'hex'))`;
  const expressionIn = (sql: string) =>
    JSON.parse(/"expression":("(?:[^"\\]|\\.)*")/.exec(sql)?.[1] ?? 'null') as unknown;
  const one = fromBytes(rewritten(`${webhook} VALIDATE SECRET "é" USING GitHub`).sql);
  assert.equal(expressionIn(one), signed('"é"'));
  const two = fromBytes(rewritten('ALTER TABLE t VALIDATE SECRET old, app.new USING github;').sql);
  assert.equal(expressionIn(two), `(${signed('old')})\nOR (${signed('new')})`);
  assert.match(two, /"payload":"payload"/);
  const unknown = createRewriter(testRooms())(`${webhook} VALIDATE SECRET s USING githib`, utf8);
  assert.match(unknown?.kind === 'error' ? (unknown.error.hint ?? '') : '', /^Perhaps github\b/);
});

test('a rewritten VALIDATE masks literals that are secrets, and carries the whole expression sealed', () => {
  const deps = testRooms();
  const { sql } = rewritten(
    `${webhook} VALIDATE AS secure_compare(headers->>'é', 'key $hg$ 1') -- old: 'key2'`,
    utf8,
    deps,
  );
  assert.doesNotMatch(sql, /key/);
  assert.match(fromBytes(sql), /"expression":"secure_compare\(headers->>'é', '\*{8}'\)"/);
  assert.deepEqual(deps.sealed, [
    {
      identity: 'check:00000000-0000-4000-8000-000000000001',
      plaintext: JSON.stringify({
        expression: "secure_compare(headers->>'é', 'key $hg$ 1')",
        shown: "secure_compare(headers->>'é', '********')",
        payload: null,
        secrets: [],
      }),
    },
  ]);
});

test('a rewritten VALIDATE is always sealed, and blanks its comments without moving positions', () => {
  const deps = testRooms();
  const { sql } = rewritten(
    `ALTER TABLE t VALIDATE SECRET s AS a = -- 'key'\n s /* 'key2' */ || 'x'`,
    utf8,
    deps,
  );
  assert.match(sql, /"expression":"a = {9}\\n s {14}\|\| 'x'","sealed":"/);
  assert.deepEqual(
    deps.sealed.map(({ plaintext }) => JSON.parse(plaintext) as unknown),
    [{ expression: `a =${' '.repeat(9)}\n s${' '.repeat(14)}|| 'x'`, payload: null, secrets: ['s'] }],
  );
});

test("the rewriter removes comments around Headgate's statements and keeps those around others", () => {
  const { sql, tags } = rewritten(
    "-- 'a'\n;/* 'b' */ FLUSH /* 'c' */ ; /* d */ SELECT 1 /* e */; -- 'f'\nFLUSH -- 'g'",
  );
  assert.equal(sql, 'CALL headgate.flush(); /* d */ SELECT 1 /* e */;CALL headgate.flush()');
  assert.deepEqual(tags, ['FLUSH', null, 'FLUSH']);
});

test('the rewriter maps every position in a column list and in other statements back to the original', () => {
  const sql = `SELECT 'ü'; ${webhook.replace('JSONB', () => "JSONB CHECK (data <> '$hg$') -- ;\n")}; SELECT $hg1$ x $hg1$`;
  const bytes = toBytes(sql);
  const result = rewritten(sql);
  for (const part of ["SELECT 'ü';", "(data JSONB CHECK (data <> '$hg$') -- ;\n)", ' SELECT $hg1$ x $hg1$']) {
    const from = result.sql.indexOf(toBytes(part));
    assert.ok(from >= 0, part);
    for (let ahead = 0; ahead < part.length; ahead++) {
      assert.equal(result.originalOffset(from + ahead), bytes.indexOf(toBytes(part)) + ahead);
    }
  }
  for (let offset = 0, last = 0; offset <= result.sql.length + 5; offset++) {
    const original = result.originalOffset(offset);
    assert.ok(original >= 0 && original <= bytes.length);
    if (offset < 12) assert.ok(original >= last);
    last = original;
  }
});

test("the rewriter leaves random statements between Headgate's unchanged", () => {
  const filler = fc.constantFrom(
    "SELECT ';'",
    ' SELECT $$ ; FLUSH $$ ',
    '/* ; */ SELECT 1',
    '-- FLUSH;\nSELECT 2',
    "SELECT E'\\'; SHOW'",
  );
  fc.assert(
    fc.property(fc.array(filler, { minLength: 1, maxLength: 6 }), (fillers) => {
      const result = rewritten(`FLUSH;${fillers.map((it) => `${it};FLUSH`).join(';')}`);
      assert.equal(
        result.sql,
        `CALL headgate.flush();${fillers.map((it) => `${it};CALL headgate.flush()`).join(';')}`,
      );
      assert.equal(result.tags.length, 1 + 2 * fillers.length);
    }),
  );
});

test('a rewritten statement lists the statements that must run before it', async () => {
  const cases: [string, string[]][] = [
    ['SHOW TABLES; FLUSH', ['ensure dev']],
    ['DROP DATABASE IF EXISTS "App" WITH (FORCE)', ['release App, all']],
    ['DROP DATABASE force', ['release force, none']],
    ['ALTER DATABASE App RENAME TO other', ['release app, none']],
    ['ALTER DATABASE app SET TABLESPACE x', ['release app, none']],
    ['CREATE DATABASE copy WITH OWNER = root TEMPLATE = app', ['release app, own']],
    ['create database copy template app', ['release app, own']],
  ];
  for (const [sql, calls] of cases) {
    const deps = testRooms();
    const result = rewritten(sql, utf8, deps);
    if (calls[0]?.startsWith('release')) assert.deepEqual([result.sql, result.tags], [sql, [null]]);
    await result.before?.();
    assert.deepEqual(deps.calls, calls);
  }
});

test('the rewriter reads ASCII statements in other client encodings, and refuses non-ASCII at its position', () => {
  const latin1 = { ...utf8, clientEncoding: 'LATIN1' };
  const rewrite = createRewriter(testRooms());
  assert.equal(
    rewrite("SELECT '\xe9'; CREATE SECRET s WITH (backend = 'meta') AS 'a'", latin1)?.kind,
    'rewritten',
  );
  const result = rewrite("CREATE SECRET s WITH (backend = 'meta') AS 'caf\xe9'", latin1);
  assert.equal(result?.kind === 'error' && result.error.sqlstate, '0A000');
  // The second byte of this Japanese character is a backslash, which must not escape the quote.
  const japanese = { ...utf8, clientEncoding: 'SJIS' };
  assert.equal(rewrite("SELECT E'\x95\x5c'; FLUSH", japanese)?.kind, 'rewritten');
});

test('the rewriter reads strings with standard_conforming_strings off', () => {
  const off = { ...utf8, standardConformingStrings: false };
  const deps = testRooms();
  rewritten("SELECT '\\'; FLUSH'; CREATE SECRET s WITH (backend = 'meta') AS 'a\\'b'", off, deps);
  assert.equal(deps.sealed[0]?.plaintext, "a'b");
  const result = createRewriter(deps)(`${webhook} VALIDATE AS a = '\\\\x'`, off);
  assert.equal(result?.kind === 'error' && result.error.sqlstate, '0A000');
});

test('the rewriter makes of any sequence of words a rewrite, an error inside the text, or no change', () => {
  const words =
    `CREATE TABLE UNLOGGED TEMP IF NOT EXISTS t . , ( ) ; = WITH connector 'webhook' VALIDATE SECRET s AS a USING ALTER DROP
    SHOW TABLES DESCRIBE FLUSH DATABASE TEMPLATE RENAME INCLUDE HEADER PRIMARY KEY data JSONB STRING [ ] $1 'x' E'\\' "q" U&"u" $$d$$ $$ ' /* -- \\`.split(
      /\s+/,
    );
  const heads = [
    'CREATE TABLE t (data JSONB) WITH (',
    'CREATE SECRET s WITH (',
    'ALTER TABLE t',
    'SHOW',
    'DROP DATABASE',
    webhook,
  ];
  fc.assert(
    fc.property(
      fc.constantFrom(...heads),
      fc.array(fc.constantFrom(...words), { maxLength: 12 }),
      (head, tail) => {
        const sql = `${head} ${tail.join(' ')}`;
        const result = createRewriter(testRooms())(sql, utf8);
        if (result?.kind === 'error') {
          const { position, sqlstate } = result.error;
          assert.ok(position !== undefined && position >= 1 && position <= sql.length + 1, sqlstate);
        }
      },
    ),
    { numRuns: 5_000 },
  );
});

test('the rewriter takes linear time for a text of very many statements', () => {
  for (const last of ['SHOW search_path', 'SELECT rw_columns']) {
    const started = performance.now();
    assert.equal(createRewriter(testRooms())(`${';SELECT'.repeat(200_000)};${last}`, utf8), null);
    assert.ok(performance.now() - started < 3_000, last);
  }
});

test('the rewriter takes linear time for one statement of very many parts', () => {
  const many = (part: (i: number) => string, count = 100_000): string =>
    Array.from({ length: count }, (_, i) => part(i)).join('');
  const table = "CREATE TABLE t (data JSONB) WITH (connector = 'webhook'";
  const texts = {
    // The last tag comes first, so that each search for one that is free would read all of the text.
    tags: `CREATE TABLE t (data JSONB DEFAULT '${many((i) => `$hg${100_000 - i}$`)}$hg$') WITH (connector = 'webhook')`,
    secrets: `${table}) VALIDATE SECRET ${many((i) => `s${i},`)} z USING github`,
    answers: `${table}) ANSWER SECRET ${many((i) => `s${i},`)} z BODY 'x'`,
    options: `${table}${many((i) => `, o${i} = 1`, 50_000)})`,
    columns: `CREATE TABLE t (${many((i) => `c${i} int,`, 20_000)} data JSONB)${many((i) => ` INCLUDE HEADER 'h${i}' AS c${i}`, 20_000)} WITH (connector = 'webhook')`,
    signs: `SHOW TABLES; SELECT ${'+'.repeat(10_000_000)}`,
  };
  for (const [name, text] of Object.entries(texts)) {
    const started = performance.now();
    assert.notEqual(createRewriter(testRooms())(text, utf8), null);
    assert.ok(performance.now() - started < 3_000, name);
  }
});

test("a query has at most a thousand of Headgate's statements, and any number of others", async () => {
  const rewrite = createRewriter(testRooms());
  const texts = (count: number) => `SELECT 1;${'SHOW TABLES;'.repeat(count)}${'SELECT 1;'.repeat(50_000)}`;
  assert.equal(rewrite(texts(limits.sqlOwnStatementsMax), utf8)?.kind, 'rewritten');
  const refused = rewrite(texts(limits.sqlOwnStatementsMax + 1), utf8);
  assert.ok(refused?.kind === 'error');
  assert.deepEqual([refused.error.sqlstate, refused.error.position], ['54000', 9 + 12_000 + 1]);
  // What they show is bounded together, too.
  const endpoints = async () => ({ base: 'x'.repeat(100_000) });
  const long = createRewriter({ ...testRooms(), endpoints })('SHOW ENDPOINTS;'.repeat(200), utf8);
  assert.ok(long?.kind === 'deferred');
  await assert.rejects(long.prepare(), /too long together/);
});

test('the rewriter yields during a long scan, with the same result', async () => {
  let time = 0;
  const rooms = { ...testRooms(), now: () => (time += limits.sqlSearchMs / 2) };
  const sql = `SELECT 1; ${webhook}; FLUSH; SHOW SPOOL; SELECT 2; DROP SECRET s`;
  const whole = createRewriter(testRooms())(sql, utf8);
  const slow = createRewriter(rooms)(sql, utf8);
  assert.ok(whole?.kind === 'deferred' && slow?.kind === 'deferred');
  const [expected, { sql: text, tags, before }] = [await whole.prepare(), await slow.prepare()];
  assert.deepEqual([text, tags, before, rooms.calls], [expected.sql, expected.tags, null, ['ensure dev']]);
  const native = createRewriter(rooms)('SELECT 1; SELECT 2; SELECT 3; SHOW ALL', utf8);
  assert.ok(native?.kind === 'deferred');
  const unchanged = await native.prepare();
  assert.deepEqual([unchanged.sql, unchanged.tags], ['SELECT 1; SELECT 2; SELECT 3; SHOW ALL', []]);
  const broken = createRewriter(rooms)('SELECT 1; SELECT 2; SELECT 3; FLUSH all', utf8);
  assert.ok(broken?.kind === 'deferred');
  await assert.rejects(broken.prepare(), /syntax error at or near "all"/);
});
