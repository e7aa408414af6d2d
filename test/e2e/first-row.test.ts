import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import examples from '@octokit/webhooks-examples' with { type: 'json' };
import { sign } from '@octokit/webhooks-methods';
import { sharedHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';

/** The package's types describe it as a keyed object; it is a list. */
const events = examples as unknown as readonly {
  readonly name: string;
  readonly examples: readonly unknown[];
}[];

const psql = (headgate: Headgate, ...args: string[]) => {
  const { host, port } = headgate.ports.sql;
  return run('psql', [
    '-X',
    '-h',
    host,
    '-p',
    String(port),
    '-d',
    'dev',
    '-U',
    'root',
    '-v',
    'ON_ERROR_STOP=1',
    ...args,
  ]);
};

const shared = sharedHeadgate();

suite('the first rows arrive by webhook', () => {
  test('a table with a secret, created by psql, accepts a webhook sent by curl', async (t) => {
    if (!requireTool(t, 'psql') || !requireTool(t, 'curl')) return;
    const headgate = await shared();
    const created = await psql(
      headgate,
      '-c',
      `CREATE TABLE wbhtable (data JSONB) WITH (connector = 'webhook',) VALIDATE AS secure_compare(headers->>'signature', 'test_value')`,
    );
    assert.deepEqual(created, { code: 0, stdout: 'CREATE TABLE\n', stderr: '' });
    const url = `${headgate.webhookUrl}/dev/public/wbhtable`;
    const curl = (signature: string, body: string) =>
      run('curl', [
        '-sS',
        '-w',
        '\n%{http_code}',
        '-H',
        'Content-Type: application/json',
        '-H',
        `signature: ${signature}`,
        '-d',
        body,
        url,
      ]);
    assert.equal((await curl('test_value', '{"order": 1, "name": "Zoë ☃"}')).stdout, '{"rows":1}\n200');
    assert.equal(
      (await curl('test_valuf', '{"order": 2}')).stdout,
      '{"error":"Signature verification failed","code":"signature_failed"}\n401',
    );
    const rows = await psql(headgate, '-At', '-c', 'SELECT * FROM wbhtable');
    assert.equal(rows.stdout, '{"name": "Zoë ☃", "order": 1}\n');
    const { text } = await headgate.post('dev/public/wbhtable', '{"order": 3}');
    assert(!text.includes('test_value'));
  });

  test("GitHub's example payloads, signed by its own package, are stored as sent", async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`
      CREATE SECRET github WITH (backend = 'meta') AS 'It''s a Secret to Everybody';
      CREATE TABLE gh (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET github AS secure_compare(
        headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(github, data, 'sha256'), 'hex'))`);
    const payloads = events.flatMap((event) => event.examples.map((example) => JSON.stringify(example)));
    assert(payloads.length > 100);
    const sent = sampleOf(payloads, 60);
    const deliver = async (payload: string) => {
      const signature = await sign("It's a Secret to Everybody", payload);
      const ok = await headgate.post('dev/public/gh', payload, { 'x-hub-signature-256': signature });
      assert.equal(ok.text, '{"rows":1}');
      const forged = payload.replace(/\d/, (digit) => String((Number(digit) + 1) % 10));
      const refused = await headgate.post('dev/public/gh', forged, { 'x-hub-signature-256': signature });
      assert.equal(refused.status, 401);
    };
    t.diagnostic(sampleSeed);
    const left = sent.values();
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        for (const payload of left) await deliver(payload);
      }),
    );
    const unsigned = await headgate.post('dev/public/gh', payloads[0] ?? '');
    assert.equal(unsigned.status, 401);
    const { rows } = await client.query(
      `select sent.data, sent.n as sent, stored.n as stored
       from (select body::jsonb as data, count(*) as n from unnest($1::text[]) as b (body) group by 1) as sent
       full join (select data, count(*) as n from gh group by 1) as stored using (data)
       where sent.n is distinct from stored.n`,
      [sent],
    );
    assert.deepEqual(rows, []);
    const total = await client.query<{ n: number }>('select count(*)::int as n from gh');
    assert.equal(total.rows[0]?.n, sent.length);
  });

  test('webhook bodies are stored in JSONB with every digit of their numbers', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE exact (body JSONB) WITH (connector = 'webhook')`);
    const sent = [
      '12345678901234567890',
      '1e400',
      '-0.1234567890123456789012345678901234567890',
      '{"a": 1, "b": 1.10, "a": 2}',
      '[1.0, 1E2, -0, 0.000]',
      'null',
      '"text \\u00e9 \\ud83d\\ude00"',
      ' [ ] ',
    ];
    for (const body of sent)
      assert.equal((await headgate.post('dev/public/exact', body)).text, '{"rows":1}', body);
    const stored = await client.query<{ same: boolean; text: string }>(
      `select e.body::text as text, e.body::text = s.body::jsonb::text as same
       from (select body, row_number() over (order by ctid) as i from exact) e
       join unnest($1::text[]) with ordinality as s (body, i) using (i) order by i`,
      [sent],
    );
    assert.equal(stored.rows.length, sent.length);
    for (const row of stored.rows) assert(row.same, row.text);
    assert.equal(stored.rows[0]?.text, '12345678901234567890');
    assert.equal(stored.rows[1]?.text, `1${'0'.repeat(400)}`);
    assert.equal(stored.rows[3]?.text, '{"a": 2, "b": 1.10}');
  });

  test('of 100 concurrent requests only the one with "\\u0000" is refused', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    await client.query(`CREATE TABLE many (data JSONB) WITH (connector = 'webhook')`);
    const bodies = Array.from({ length: 100 }, (_, i) => (i === 41 ? '"\\u0000"' : JSON.stringify({ i })));
    const answers = await Promise.all(bodies.map((body) => headgate.post('dev/public/many', body)));
    assert.deepEqual(
      answers.map((answer) => answer.status),
      bodies.map((_, i) => (i === 41 ? 422 : 200)),
    );
    const { rows } = await client.query<{ n: string }>(`select count(distinct data->'i') as n from many`);
    assert.equal(rows[0]?.n, '99');
  });
});

/** The authentication methods of the specification's table, each as its senders use it. */
const methods: readonly {
  readonly name: string;
  readonly check: string;
  readonly headers: (body: string, secret: string) => Record<string, string>;
}[] = [
  {
    name: 'SHA-1 HMAC (code hosting)',
    check: `secure_compare(headers->>'x-hub-signature', 'sha1=' || encode(hmac(s, data, 'sha1'), 'hex'))`,
    headers: (body, secret) => ({
      'x-hub-signature': `sha1=${createHmac('sha1', secret).update(body).digest('hex')}`,
    }),
  },
  {
    name: 'SHA-256 HMAC (code hosting)',
    check: `secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`,
    headers: (body, secret) => ({
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    }),
  },
  {
    name: 'SHA-1 HMAC (customer data)',
    check: `secure_compare(headers->>'x-signature', encode(hmac(s, data, 'sha1'), 'hex'))`,
    headers: (body, secret) => ({ 'x-signature': createHmac('sha1', secret).update(body).digest('hex') }),
  },
  {
    name: 'API key (marketing CRM)',
    check: `secure_compare(headers->>'authorization', s)`,
    headers: (_, secret) => ({ authorization: secret }),
  },
  {
    name: 'bearer token (event bus, event pipeline)',
    check: `secure_compare(headers->>'authorization', 'Bearer ' || s)`,
    headers: (_, secret) => ({ authorization: `Bearer ${secret}` }),
  },
  {
    name: 'signature V2 (marketing CRM)',
    check: `secure_compare(headers->>'x-hubspot-signature',
      encode(sha256(convert_to(s || 'POST' || 'https://hooks.example.com/crm', 'UTF8') || data), 'hex'))`,
    headers: (body, secret) => ({ 'x-hubspot-signature': crmV2(secret, body) }),
  },
];

function crmV2(secret: string, body: string): string {
  return createHash('sha256').update(`${secret}POSThttps://hooks.example.com/crm${body}`).digest('hex');
}

test('VALIDATE works for each documented authentication method, with a secret and with a raw string', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'sëcret''1'`);
  for (const [i, { name, check, headers }] of methods.entries()) {
    const raw = check.replaceAll(/\bs\b(?=[,)]| \|\|)/g, `'sëcret''1'`);
    assert.notEqual(raw, check);
    await client.query(
      `CREATE TABLE secret_${i} (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS ${check}`,
    );
    await client.query(`CREATE TABLE raw_${i} (data JSONB) WITH (connector = 'webhook') VALIDATE AS ${raw}`);
    const body = JSON.stringify({ name });
    for (const table of [`secret_${i}`, `raw_${i}`]) {
      const path = `dev/public/${table}`;
      const utf8 = (given: Record<string, string>) =>
        Object.fromEntries(Object.entries(given).map(([k, v]) => [k, Buffer.from(v).toString('latin1')]));
      const ok = await headgate.post(path, body, utf8(headers(body, "sëcret'1")));
      assert.equal(ok.text, '{"rows":1}', `${name} into ${table}`);
      assert.equal((await headgate.post(path, body, utf8(headers(body, "sëcret'2")))).status, 401, name);
      assert.equal((await headgate.post(path, body)).status, 401, name);
      const { rows } = await client.query<{ n: number }>(`select count(*)::int as n from ${table}`);
      assert.equal(rows[0]?.n, 1, name);
    }
  }
  const shown = await client.query<Record<string, string>>('SHOW CREATE TABLE raw_0');
  assert(!JSON.stringify(shown.rows).includes('cret'), 'the key in the expression is masked');
});
