import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertRefused, testRooms, toBytes, utf8 } from '../../test/support/ddl-rooms.ts';
import { createRewriter } from './rewrite.ts';

const webhook = "CREATE TABLE t (data JSONB) WITH (connector = 'webhook')";

/** What the catalog would store: secrets and what is shown. */
async function stored(sql: string, deps = testRooms()): Promise<string[]> {
  const result = createRewriter(deps)(toBytes(sql), utf8);
  assert.ok(result !== null && result.kind !== 'error', `${sql}: ${JSON.stringify(result)}`);
  const { sql: text } = result.kind === 'deferred' ? await result.prepare() : result;
  const json = /[$:](\[\{"unchecked".*?\}\])(?:\$hg\$|,"how")/.exec(text)?.[1] ?? '[]';
  const answers = JSON.parse(json) as { expression: string; secrets: { name: string }[] }[];
  return answers.map(({ expression, secrets }) =>
    [...secrets.map(({ name }) => `[${name}]`), expression].join(' '),
  );
}

test('the ANSWER clauses of a statement are separated wherever each ends', async () => {
  assert.deepEqual(
    await stored(
      `${webhook} VALIDATE AS a = 'x' ANSWER UNCHECKED WHEN method = 'GET' /* key */ AND q STATUS 201 TYPE 'text/plain' ` +
        `HEADER 'X-A' = f('b') HEADER 'X-B' = 'it''s' BODY g(status, 'STATUS 200')`,
    ),
    [
      `UNCHECKED WHEN method = 'GET'           AND q STATUS 201 TYPE 'text/plain' HEADER 'X-A' = f('b') HEADER 'X-B' = 'it''s' BODY g(status, 'STATUS 200')`,
    ],
  );
  assert.deepEqual(
    await stored(
      `${webhook} VALIDATE AS answer = type ANSWER WHEN body = header AND CASE WHEN a THEN b ELSE c END BODY 'x' ANSWER STATUS 204`,
    ),
    [`WHEN body = header AND CASE WHEN a THEN b ELSE c END BODY 'x'`, 'STATUS 204'],
  );
  assert.deepEqual(await stored(`${webhook} ANSWER UNCHECKED WHEN a`), ['UNCHECKED WHEN a']);
  assert.deepEqual(await stored(`${webhook} VALIDATE AS answer IS NOT NULL AND answer`), []);
});

test('an ANSWER clause keeps its own secrets, and those of VALIDATE that it reads', async () => {
  assert.deepEqual(
    await stored(
      `${webhook} VALIDATE SECRET sec_a, sec_b AS sec_a ANSWER SECRET sec_c UNCHECKED WHEN m BODY f(sec_b) ANSWER WHEN m BODY 'a'`,
    ),
    ['[sec_c] [sec_b] UNCHECKED WHEN m BODY f(sec_b)', "WHEN m BODY 'a'"],
  );
});

test('keys in ANSWER clauses are masked and sealed', async () => {
  const deps = testRooms();
  const [shown] = await stored(`${webhook} VALIDATE AS x ANSWER WHEN q = 'key 1' BODY 'b'`, deps);
  assert.equal(shown, `WHEN q = '********' BODY 'b'`);
  const sealed = deps.sealed.find(({ identity }) => identity.startsWith('answer:'));
  assert.match(sealed?.plaintext ?? '', /key 1/);
});

test("USING brings the sender's ANSWER clauses, or an empty 200 if the sender has none", async () => {
  const using = (more: string) => stored(`${webhook} VALIDATE SECRET sec_a USING ${more}`);
  assert.deepEqual(await using('github'), ['STATUS 200']);
  assert.deepEqual(await using('github ANSWER NONE'), []);
  assert.deepEqual(await using("github ANSWER NONE ANSWER BODY 'ok'"), ["BODY 'ok'"]);
  assert.deepEqual(await using('github ANSWER STATUS 204'), ['STATUS 204']);
  const [crc = '', ...afterCrc] = await using('x');
  assert.match(crc, /^\[sec_a\] UNCHECKED WHEN method = 'GET' AND query->>'crc_token' IS NOT NULL\s/);
  assert.deepEqual(afterCrc, ['STATUS 200']);
  const subscribed = /^\[sec_b\] UNCHECKED WHEN method = 'GET' AND query->>'hub\.mode' = 'subscribe'\s/;
  const [question = '', ...afterQuestion] = await using('strava ANSWER SECRET sec_b');
  assert.match(question, subscribed);
  assert.deepEqual(afterQuestion, ['STATUS 200']);
  const [own, second = '', last] = await using("strava ANSWER SECRET sec_b ANSWER WHEN z BODY 'c'");
  assert.match(second, subscribed);
  assert.deepEqual([own, last], ["WHEN z BODY 'c'", 'STATUS 200']);
});

test('ALTER TABLE reads the VALIDATE of its table before it adds an UNCHECKED answer', async () => {
  const deps = testRooms();
  assert.deepEqual(await stored("ALTER TABLE app.t ANSWER UNCHECKED WHEN a BODY 'b'", deps), [
    "UNCHECKED WHEN a BODY 'b'",
  ]);
  assert.deepEqual(deps.calls, ['ensure dev', 'guards app.t']);
  assert.deepEqual(await stored("ALTER TABLE t ANSWER WHEN a BODY 'b'"), ["WHEN a BODY 'b'"]);
  assert.deepEqual(await stored("ALTER TABLE t VALIDATE AS x ANSWER BODY 'b'"), ["BODY 'b'"]);
  assert.deepEqual(await stored('ALTER TABLE IF EXISTS t DROP ANSWER'), []);
  for (const native of [
    'ALTER TABLE t DROP answer CASCADE',
    'ALTER TABLE t ADD COLUMN answer int',
    'ALTER TABLE answer RENAME TO b',
  ])
    assert.equal(createRewriter(testRooms())(native, utf8), null, native);
});

const refused: [string, string, RegExp][] = [
  [`${webhook} ANSWER¶`, '42601', /at end of input/],
  [`${webhook} ANSWER UNCHECKED ¶BODY 'a'`, '42601', /"BODY"/],
  [`${webhook} VALIDATE AS x ANSWER WHEN a STATUS ¶20`, '42601', /"20"/],
  [`${webhook} VALIDATE AS x ANSWER WHEN a BODY ¶nope()`, '42883', /nope/],
  [`${webhook} VALIDATE AS x ANSWER WHEN é AND ¶nope()`, '42883', /nope/],
  [`${webhook} VALIDATE SECRET a USING x ¶BODY 'a'`, '42601', /"BODY"/],
  [`${webhook} VALIDATE SECRET a USING github ANSWER SECRET ¶b`, '22023', /need no secret/],
  [`${webhook} VALIDATE AS x ANSWER ¶NONE`, '42601', /"NONE"/],
  [`${webhook} VALIDATE AS x ANSWER BODY 'a' ¶ANSWER STATUS 200`, '42601', /one ANSWER without WHEN/],
  [`${webhook} VALIDATE AS x ANSWER SECRET a, ¶a WHEN b`, '42712', /already taken/],
  [
    `${webhook} VALIDATE AS x${" ANSWER WHEN a BODY 'b'".repeat(16)} ¶ANSWER WHEN a BODY 'b'`,
    '54000',
    /at most 16/,
  ],
];
for (const [marked, sqlstate, message] of refused.filter(([sql]) => !sql.includes('WHERE')))
  test(`an invalid ANSWER clause is refused at its position: ${marked.slice(webhook.length, 150)}`, () =>
    assertRefused(marked, sqlstate, message));
