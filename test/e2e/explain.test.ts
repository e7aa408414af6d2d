import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client, QueryResult } from 'pg';
import { sharedHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';

const secret = 'It is 1 secret!';
const key = 'raw-key-1234567';
const github = `secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(gh, data, 'sha256'), 'hex'))`;
const timed = `secure_compare(headers->>'x-signature', encode(hmac(gh, convert_to((headers->>'x-time') || '.', 'UTF8') || data, 'sha256'), 'hex'))
  AND abs(extract(epoch from now()) - (headers->>'x-time')::bigint) <= 300`;
const signed = (text: string) => createHmac('sha256', secret).update(text).digest('hex');

const shared = sharedHeadgate();
let made = false;

async function started(t: TestContext): Promise<{ headgate: Headgate; client: Client }> {
  const headgate = await shared();
  const client = await headgate.client(t);
  if (!made) await client.query(tables);
  made = true;
  return { headgate, client };
}

const tables = `
    CREATE SECRET gh WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE hub (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh AS ${github};
    CREATE TABLE timed (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh AS ${timed};
    CREATE TABLE literal (data JSONB) WITH (connector = 'webhook') VALIDATE AS
      secure_compare(headers->>'authorization', 'Bearer ' || '${key}');
    CREATE TABLE addressed (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh AS
      secure_compare(headers->>'x-signature', encode(hmac(gh, convert_to(method || url, 'UTF8') || data, 'sha1'), 'base64'));
    CREATE TABLE open (data JSONB) WITH (connector = 'webhook')`;

interface Line {
  readonly step: number;
  readonly expression: string;
  readonly value: string;
}

const literal = (value: unknown): string =>
  `'${(typeof value === 'string' ? value : JSON.stringify(value)).replaceAll("'", "''")}'`;
const explainSql = (table: string, options: Record<string, unknown>): string =>
  `EXPLAIN VALIDATE ${table} WITH (${Object.entries(options)
    .map(([name, value]) => `${name} = ${literal(value)}`)
    .join(', ')})`;

/** Asks over both protocols; what is shown never holds a secret, or what would let a reader sign. */
async function explain(client: Client, table: string, options: Record<string, unknown>): Promise<Line[]> {
  const text = explainSql(table, options);
  const simple: QueryResult<Line> = await client.query(text);
  // A statement with a name goes through Parse, Bind and Execute.
  const extended = await client.query<Line>({ text, name: randomUUID() });
  assert.equal(simple.command, 'EXPLAIN');
  if (options['now'] !== undefined) assert.deepEqual(extended.rows, simple.rows);
  const shown = JSON.stringify([simple.rows, extended.rows]);
  for (const hidden of [secret, key, Buffer.from(secret).toString('hex')])
    assert(!shown.includes(hidden), shown);
  return simple.rows;
}

const verdict = ([first]: readonly Line[]): string => `${first?.expression}: ${first?.value}`;

suite('EXPLAIN VALIDATE explains checks', () => {
  test('EXPLAIN VALIDATE shows every step with its value, and masks values computed from secrets', async (t) => {
    const { client } = await started(t);
    const body = `{"zen": "It's ☃"}`;
    const signature = `sha256=${signed(body)}`;
    const headers = { 'X-Hub-Signature-256': signature };
    assert.deepEqual(await explain(client, 'hub', { headers, body, now: 0 }), [
      { step: 0, expression: 'accepted', value: 'the expression is true' },
      { step: 1, expression: `headers->>'x-hub-signature-256'`, value: `'${signature}'` },
      { step: 2, expression: 'gh', value: '********' },
      {
        step: 3,
        expression: 'data',
        value: `'${body.replace("'", "''")}' (${Buffer.byteLength(body)} bytes)`,
      },
      { step: 4, expression: `hmac(gh, data, 'sha256')`, value: '********' },
      { step: 5, expression: `encode(hmac(gh, data, 'sha256'), 'hex')`, value: '********' },
      { step: 6, expression: `'sha256=' || encode(hmac(gh, data, 'sha256'), 'hex')`, value: '********' },
      {
        step: 7,
        expression: github,
        value: 'true',
      },
    ]);
    const packed = { headers, body_base64: Buffer.from(body).toString('base64'), now: 0 };
    assert.equal((await explain(client, 'hub', packed))[0]?.expression, 'accepted');
    const changed = await explain(client, 'hub', { headers, body: `${body} `, now: 0 });
    assert.match(verdict(changed), /^refused: the signature differs: header 'x-hub-signature-256' is not/);
    assert(!JSON.stringify(changed).includes(signed(`${body} `)), 'the expected signature is not shown');
    assert.equal(changed.at(-1)?.value, 'false');
  });

  test('EXPLAIN VALIDATE gives the reason of every refusal, as the listener does', async (t) => {
    const { headgate, client } = await started(t);
    const body = '{"a": 1}';
    const good = `sha256=${signed(body)}`;
    const header = 'x-hub-signature-256';
    const now = 1_700_000_000;
    const fresh = { 'x-time': String(now), 'x-signature': signed(`${now}.${body}`) };
    const cases: readonly [string, Record<string, unknown>, RegExp][] = [
      ['hub', { body }, /^refused: header 'x-hub-signature-256' is missing$/],
      ['hub', { body, headers: { [header]: '' } }, /^refused: header 'x-hub-signature-256' is empty$/],
      ['hub', { body, headers: { [header]: [good, good] } }, /^refused: header .* arrived twice/],
      ['hub', { body, headers: { [header]: good.slice(7) } }, /does not begin with 'sha256='$/],
      ['hub', { body, headers: { [header]: good.slice(0, -1) } }, /^refused: the signature differs/],
      [
        'literal',
        { headers: { authorization: 'Bearer x' } },
        /^refused: the key differs: header 'authorization'/,
      ],
      ['literal', { headers: { authorization: `Bearer ${'x'.repeat(5)}` } }, /is not '\*{8}'$/],
      ['timed', { body, now, headers: fresh }, /^accepted/],
      ['timed', { body, now: now + 300, headers: fresh }, /^accepted/],
      [
        'timed',
        { body, now: now + 301, headers: fresh },
        /^refused: the clock is outside the tolerance: .*301/,
      ],
      ['timed', { body, now: '2023-11-14 22:13:20Z', headers: fresh }, /^accepted/],
      ['timed', { body, now, headers: { ...fresh, 'x-time': 'soon' } }, /^refused: the signature differs/],
      [
        'timed',
        { body, now, headers: { 'x-time': 'soon', 'x-signature': signed(`soon.${body}`) } },
        /raised 22P02: invalid input syntax for type bigint$/,
      ],
      [
        'addressed',
        { body, headers: { 'x-signature': 'x' } },
        /^refused: url is NULL: .*HEADGATE_PUBLIC_URL/,
      ],
      ['open', {}, /^accepted: the table has no VALIDATE/],
    ];
    for (const [table, options, expected] of cases) {
      assert.match(
        verdict(await explain(client, table, options)),
        expected,
        JSON.stringify([table, options]),
      );
      const { headers = {}, now: clock } = options as { headers?: Record<string, string>; now?: unknown };
      if (clock !== undefined || Object.values(headers).some(Array.isArray)) continue;
      const answer = await headgate.post(`dev/public/${table}`, body, headers);
      assert.equal(
        answer.status,
        verdict(await explain(client, table, options)).startsWith('accepted') ? 200 : 401,
      );
    }
    const skipped = await explain(client, 'timed', { body, now, headers: {} });
    assert.equal(
      verdict(skipped),
      `refused: header 'x-signature' is missing, and header 'x-time' is missing`,
    );
    const wrong = await explain(client, 'timed', { body, now, headers: { ...fresh, 'x-signature': 'no' } });
    assert(wrong.some(({ value }) => value === 'not evaluated'));
    const url = 'https://hooks.example.com/in?a=%20b';
    const sent = createHmac('sha1', secret).update(`PUT${url}${body}`).digest('base64');
    const addressed = { body, url, method: 'PUT', headers: { 'x-signature': sent } };
    assert.equal((await explain(client, 'addressed', addressed))[0]?.expression, 'accepted');
  });

  test("only the table's owner may EXPLAIN VALIDATE, and the engine's text tells others nothing", async (t) => {
    const { headgate, client } = await started(t);
    await client.query(`CREATE ROLE mallory LOGIN; CREATE ROLE owner LOGIN; CREATE ROLE helper LOGIN IN ROLE owner;
      CREATE SCHEMA theirs AUTHORIZATION owner; GRANT USAGE ON SCHEMA theirs TO mallory; SET ROLE owner;
      CREATE SECRET theirs.own WITH (backend = 'meta') AS 'owned';
      CREATE TABLE theirs.hub (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET theirs.own AS
        secure_compare(headers->>'k', own); RESET ROLE`);
    const ask = explainSql('theirs.hub', { headers: { k: 'owned' } });
    const as = (user: string) => headgate.clientAs(t, user);
    const [mallory, owner, helper] = [await as('mallory'), await as('owner'), await as('helper')];
    for (const allowed of [owner, helper, client]) {
      const { rows } = await allowed.query<Line>(ask);
      assert.equal(verdict(rows), 'accepted: the expression is true');
    }
    await assert.rejects(mallory.query(ask), { code: '42501', message: 'must be owner of table theirs.hub' });
    const seen = await client.query<{ query: string }>(
      `select query from pg_stat_activity where usename = 'mallory' and query like '%explain_validate%'`,
    );
    assert.match(seen.rows[0]?.query ?? '', /\{\}/);
    await client.query('SET ROLE mallory');
    await assert.rejects(client.query(ask), { code: '42501' });
    await client.query('RESET ROLE');
    assert.equal(
      verdict((await client.query<Line>(explainSql('hub', {}))).rows).slice(0, 16),
      'refused: header ',
    );
    await client.query('SET search_path = theirs, public');
    const { rows } = await client.query<Line>(explainSql('hub', { headers: { k: 'owned' } }));
    assert.equal(verdict(rows), 'accepted: the expression is true', 'the search path decides');
  });

  test('EXPLAIN VALIDATE reports why it cannot explain, and works in transactions and multi-statement strings', async (t) => {
    const { client } = await started(t);
    const refused = (sql: string, error: object) => assert.rejects(client.query(sql), error, sql);
    await client.query('CREATE TABLE plain (a int)');
    await refused('EXPLAIN VALIDATE nothing', {
      code: '42P01',
      message: 'relation "nothing" does not exist',
    });
    await refused('EXPLAIN VALIDATE plain', { code: '42809', message: '"plain" is not a webhook table' });
    await refused(`EXPLAIN VALIDATE hub WITH (heads = '{}')`, { code: '22023', position: '28' });
    await refused(`EXPLAIN VALIDATE hub WITH (headers = '[]')`, { code: '22P02' });
    await refused(`EXPLAIN VALIDATE hub WITH (headers = '{"a": 1}')`, { code: '22P02' });
    await refused(`EXPLAIN VALIDATE hub WITH (body_base64 = '*')`, { code: '22P02' });
    await refused(`EXPLAIN VALIDATE hub WITH (body = '', body_base64 = '')`, { code: '22023' });
    await refused(`EXPLAIN VALIDATE hub WITH (now = 'soon')`, { code: '22007' });
    await refused('EXPLAIN VALIDATE hub WITH (body = $1)', { code: '42P02' });
    await client.query('BEGIN');
    await client.query(
      `CREATE TABLE young (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh AS ${github}`,
    );
    await refused('EXPLAIN VALIDATE young', {
      code: '55000',
      message: /before the transaction .* is committed$/,
    });
    await client.query('ROLLBACK');
    const both = (await client.query(
      `SELECT 1 AS one; EXPLAIN VALIDATE hub; SHOW SECRETS; EXPLAIN SELECT 1`,
    )) as unknown as QueryResult[];
    assert.deepEqual(
      both.map(({ command }) => command),
      ['SELECT', 'EXPLAIN', 'SHOW', 'EXPLAIN'],
    );
    await client.query(`SET client_encoding TO 'LATIN1'`);
    const ask = `EXPLAIN VALIDATE hub WITH (body = 'caf')`;
    assert.equal((await client.query<Line>(ask)).rows[0]?.expression, 'refused');
  });
});
