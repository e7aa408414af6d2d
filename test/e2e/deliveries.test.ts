/** Deliveries that are sent again, to two Headgates in front of one database: stored once, answered each time. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { startServer } from '../support/server.ts';
import { within } from '../support/within.ts';

const tables = `
  CREATE SECRET k WITH (backend = 'meta') AS 'a key of sixteen';
  CREATE TABLE gh (data JSONB) WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET k USING github;
  CREATE TABLE lines (n INT CHECK (n > 0)) WITH (connector = 'webhook', is_batched = true, dedupe = 'header:X-Batch');
  CREATE TABLE forms (data JSONB) WITH (connector = 'webhook', format = 'form', dedupe = '$.MessageSid', dedupe_window = '1 hour');
  CREATE TABLE plain (data JSONB) WITH (connector = 'webhook');
  CREATE ROLE other LOGIN;
  CREATE TABLE theirs (id INT, word TEXT) WITH (connector = 'webhook', document = '', dedupe = '$.id, $.word');
  CREATE FUNCTION said() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN NEW.word := NEW.word || ' by ' || current_user; RETURN NEW; END$$;
  CREATE TRIGGER said BEFORE INSERT ON theirs FOR EACH ROW EXECUTE FUNCTION said();
  ALTER FUNCTION said() OWNER TO other; ALTER TABLE theirs OWNER TO other`;

test('deliveries', async (t) => {
  const server = await startServer();
  onEnd(t, 'server', () => server.close());
  const url = `postgresql://root@localhost/postgres?host=${encodeURIComponent(server.socketDir)}`;
  const key = Buffer.alloc(32, 1).toString('base64');
  const start = () =>
    startHeadgate(t, { args: [`--database-url=${url}`], env: { HEADGATE_MASTER_KEY: key } });
  const one = await start();
  const client = await one.client(t, 'postgres');
  await client.query(tables);
  const two = await start();
  const post = async (to: Headgate, table: string, body: string, headers: Record<string, string> = {}) => {
    const { status, text } = await to.post(`postgres/public/${table}`, body, headers);
    return `${status} ${text}`;
  };
  const count = async (table: string) => {
    const { rows } = await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`);
    return rows[0]?.n;
  };

  await t.test('USING knows the id: both Headgates answer the copy as the first one', async () => {
    const body = '{"action":"opened"}';
    const signed = `sha256=${createHmac('sha256', 'a key of sixteen').update(body).digest('hex')}`;
    const headers = { 'X-Hub-Signature-256': signed, 'X-GitHub-Delivery': 'd-1' };
    for (const to of [one, two, one]) assert.equal(await post(to, 'gh', body, headers), '200 ');
    assert.equal(await count('gh'), 1);
    assert.equal(await post(two, 'gh', body, { ...headers, 'X-GitHub-Delivery': 'd-2' }), '200 ');
    assert.equal(await count('gh'), 2);
    const metrics = await (await fetch(`${two.adminUrl}/metrics`)).text();
    assert.match(metrics, /^headgate_deliveries_repeated_total 1$/m);
    // Nobody takes an id without the signature.
    assert.match(await post(one, 'gh', '{}', { ...headers, 'X-GitHub-Delivery': 'd-3' }), /^401/);
    assert.equal(await post(one, 'gh', body, { ...headers, 'X-GitHub-Delivery': 'd-3' }), '200 ');
    const { 'X-Hub-Signature-256': signature } = headers;
    assert.match(
      await post(one, 'gh', body, { 'X-Hub-Signature-256': signature }),
      /^422 .*the request has no delivery id: header:x-github-delivery/,
    );
  });

  await t.test('fifty copies at once, through both', async () => {
    const ends = await Promise.all(
      Array.from({ length: 50 }, (_, i) => post(i % 2 === 0 ? one : two, 'forms', `MessageSid=SM1&n=${i}`)),
    );
    assert.deepEqual(new Set(ends), new Set(['200 {"rows":1}']));
    assert.equal(await count('forms'), 1);
  });

  await t.test('a batch is one delivery; refused it leaves nothing, and a retry stores it once', async () => {
    const headers = { 'x-batch': 'b-1' };
    assert.match(await post(one, 'lines', '{"n":1}\n{"n":-2}\n', headers), /^422/);
    await client.query('ALTER TABLE lines DROP CONSTRAINT lines_n_check');
    await within(5_000, async () =>
      assert.equal(await count(`headgate.rejected_requests WHERE table_name = 'lines'`), 1),
    );
    const retry = async () => {
      await client.query(
        `SELECT headgate.retry_rejected(id, force => true) FROM headgate.rejected_requests WHERE table_name = 'lines'`,
      );
      await within(5_000, async () =>
        assert.equal(
          await count(
            `headgate.rejected_requests WHERE table_name = 'lines' AND retry_outcome = 'committed'`,
          ),
          1,
        ),
      );
    };
    await retry();
    assert.equal(await count('lines'), 2);
    assert.equal(await post(two, 'lines', '{"n":1}\n{"n":-2}\n', headers), '200 {"rows":2}');
    await retry();
    assert.equal(await count('lines'), 2);
  });

  await t.test('a table whose code runs as its owner', async () => {
    const rows = [
      { id: 1, word: 'a' },
      { id: 1, word: 'b' },
    ];
    for (const to of [one, two])
      for (const row of rows) assert.equal(await post(to, 'theirs', JSON.stringify(row)), '200 {"rows":1}');
    const { rows: stored } = await client.query('SELECT id, word FROM theirs ORDER BY word');
    assert.deepEqual(stored, [
      { id: 1, word: 'a by other' },
      { id: 1, word: 'b by other' },
    ]);
    const stranger = await one.clientAs(t, 'other', 'postgres');
    await assert.rejects(stranger.query('SELECT FROM headgate.delivery'), { code: '42501' });
  });

  await t.test('ALTER TABLE, SHOW CREATE TABLE and EXPLAIN VALIDATE', async () => {
    const shown = async (table: string) =>
      JSON.stringify((await client.query(`SHOW CREATE TABLE ${table}`)).rows);
    assert.match(await shown('gh'), /dedupe = 'header:x-github-delivery'/);
    assert.match(await shown('forms'), /dedupe = '\$\.MessageSid',\\n {2}dedupe_window = '1 hour'/);
    await client.query(`ALTER TABLE plain SET (dedupe = 'sender:stripe', dedupe_window = '2 hours')`);
    assert.match(await shown('plain'), /dedupe = '\$\.id',\\n {2}dedupe_window = '2 hours'/);
    await within(5_000, async () => assert.match(await post(two, 'plain', '{"x":1}'), /^422/));
    for (const to of [one, two]) assert.equal(await post(to, 'plain', '{"id":"evt_1"}'), '200 {"rows":1}');
    assert.equal(await count(`plain WHERE data->>'id' = 'evt_1'`), 1);
    const explained = async (body: string) =>
      JSON.stringify((await client.query(`EXPLAIN VALIDATE plain WITH (body = '${body}')`)).rows);
    assert.match(await explained('{"id":7}'), /dedupe \$\.id.*has an id/);
    assert.match(await explained('{"id":null}'), /no id: 422 delivery_id_missing/);
    await client.query(`ALTER TABLE plain SET (dedupe = 'off')`);
    await within(5_000, async () => assert.equal(await post(two, 'plain', '{}'), '200 {"rows":1}'));
  });

  for (const [statement, message] of refused)
    await t.test(statement, () => assert.rejects(client.query(statement), { message }));
});

const refused: readonly (readonly [string, RegExp])[] = [
  [
    `CREATE TABLE z (data JSONB) WITH (connector = 'webhook', dedupe = 'sender')`,
    /needs VALIDATE \.\.\. USING/,
  ],
  [`ALTER TABLE plain SET (dedupe = 'sender')`, /needs VALIDATE \.\.\. USING/],
  [`ALTER TABLE plain SET (dedupe = 'sender:nobody')`, /unknown sender "nobody"/],
  [`ALTER TABLE plain SET (dedupe = 'sender:paystack')`, /Paystack sends no id/],
  [`ALTER TABLE plain SET (dedupe = 'x-id')`, /is no place in a request/],
  [`ALTER TABLE plain SET (dedupe = 'header:Authorization')`, /carries a credential/],
  [`ALTER TABLE plain SET (dedupe_window = '1 year')`, /dedupe_window "1 year" is not known/],
  [`ALTER TABLE lines SET (dedupe = '$.id')`, /needs a body that is one document/],
  [
    `CREATE TABLE z (n TEXT) WITH (connector = 'webhook', format = 'text', dedupe = '$.id')`,
    /needs a body that is one document/,
  ],
];
