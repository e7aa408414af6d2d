/** What is kept once at two Headgates in front of one database: deliveries that are sent again, and secrets that senders bring. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { startServer } from '../support/server.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

const tables = `
  CREATE SECRET k WITH (backend = 'meta') AS 'a key of sixteen';
  CREATE TABLE gh (data JSONB) WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET k USING github;
  CREATE TABLE lines (n INT CHECK (n > 0)) WITH (connector = 'webhook', is_batched = true, dedupe = 'header:X-Batch');
  CREATE TABLE forms (data JSONB) WITH (connector = 'webhook', format = 'form', dedupe = '$.MessageSid', dedupe_window = '1 hour');
  CREATE TABLE sockets (data JSONB) WITH (connector = 'webhook', dedupe = '$.id');
  CREATE TABLE plain (data JSONB) WITH (connector = 'webhook');
  CREATE ROLE other LOGIN;
  CREATE TABLE theirs (id INT, word TEXT) WITH (connector = 'webhook', document = '', dedupe = '$.id, $.word');
  CREATE FUNCTION said() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN NEW.word := NEW.word || ' by ' || current_user; RETURN NEW; END$$;
  CREATE TRIGGER said BEFORE INSERT ON theirs FOR EACH ROW EXECUTE FUNCTION said();
  ALTER FUNCTION said() OWNER TO other; ALTER TABLE theirs OWNER TO other`;

test('two Headgates on one database store each delivery once', async (t) => {
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
  const asStranger = async (sql: string): Promise<{ Learned?: string | null }[]> => {
    const stranger = await one.clientAs(t, 'other', 'postgres');
    return (await stranger.query<{ Learned?: string | null }>(sql)).rows;
  };
  const count = async (table: string) => {
    const { rows } = await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`);
    return rows[0]?.n;
  };

  await t.test(
    'a repeated GitHub delivery gets the same answer from both Headgates and is stored once',
    async () => {
      const body = '{"action":"opened"}';
      const signed = `sha256=${createHmac('sha256', 'a key of sixteen').update(body).digest('hex')}`;
      const headers = { 'X-Hub-Signature-256': signed, 'X-GitHub-Delivery': 'd-1' };
      for (const to of [one, two, one]) assert.equal(await post(to, 'gh', body, headers), '200 ');
      assert.equal(await count('gh'), 1);
      assert.equal(await post(two, 'gh', body, { ...headers, 'X-GitHub-Delivery': 'd-2' }), '200 ');
      assert.equal(await count('gh'), 2);
      const metrics = (await asked(`${two.adminUrl}/metrics`)).text;
      assert.match(metrics, /^headgate_deliveries_repeated_total 1$/m);
      // Nobody takes an id without the signature.
      assert.match(await post(one, 'gh', '{}', { ...headers, 'X-GitHub-Delivery': 'd-3' }), /^401/);
      assert.equal(await post(one, 'gh', body, { ...headers, 'X-GitHub-Delivery': 'd-3' }), '200 ');
      const { 'X-Hub-Signature-256': signature } = headers;
      assert.match(
        await post(one, 'gh', body, { 'X-Hub-Signature-256': signature }),
        /^422 .*the request has no delivery id: header:x-github-delivery/,
      );
    },
  );

  await t.test('fifty simultaneous copies of a delivery at two Headgates are stored once', async () => {
    const ends = await Promise.all(
      Array.from({ length: 50 }, (_, i) => post(i % 2 === 0 ? one : two, 'forms', 'MessageSid=SM1&n=1')),
    );
    assert.deepEqual(new Set(ends), new Set(['200 {"rows":1}']));
    assert.equal(await count('forms'), 1);
  });

  await t.test('a refused batch with a delivery id leaves no row, and a retry stores it once', async () => {
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

  await t.test("a WebSocket batch is deduplicated by its items' delivery id", async () => {
    const url = (to: Headgate, table: string) =>
      `ws://127.0.0.1:${to.ports.listen.port}/ingest/postgres/public/${table}`;
    const batch = (...ids: string[]) => ids.map((id) => ({ op: 'insert', data: { id } }) as const);
    const first = await WsClient.open(url(one, 'sockets'));
    first.send(1, batch('a', 'b'));
    first.send(2, batch('c'));
    first.send(3, []);
    await first.acked(3);
    await first.kill();
    // The acks were lost: the same again, at the other one, and something new behind it.
    const again = await WsClient.open(url(two, 'sockets'));
    again.send(1, batch('a', 'b'));
    again.send(2, batch('c'));
    again.send(3, batch('d', 'e'));
    await again.acked(3);
    assert.equal(await count('sockets'), 5);
    // One item is the delivery that a request with this body is.
    assert.equal(await post(two, 'sockets', '{"id":"c"}'), '200 {"rows":1}');
    assert.equal(await post(two, 'sockets', '{"id":"a"}'), '200 {"rows":1}');
    assert.equal(await count('sockets'), 6);
    again.send(4, [
      { op: 'insert', data: { id: 'f' } },
      { op: 'insert', data: { n: 1 } },
    ]);
    assert.match((await again.ended).fatal ?? '', /item 2: the request has no delivery id: \$\.id/);
    const headed = await WsClient.open(url(one, 'lines'), { headers: { 'x-batch': 'b-9' } });
    assert.match((await headed.ended).fatal ?? '', /items of a WebSocket have no headers/);
    assert.equal(await count('sockets'), 6);
  });

  await t.test('deliveries are stored once in a table whose code runs as its owner', async () => {
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

  await t.test('the option dedupe works in ALTER TABLE, SHOW CREATE TABLE and EXPLAIN VALIDATE', async () => {
    const shown = async (table: string) =>
      JSON.stringify((await client.query(`SHOW CREATE TABLE ${table}`)).rows);
    assert.match(await shown('gh'), /dedupe = 'header:x-github-delivery'/);
    assert.match(await shown('forms'), /dedupe = '\$\.MessageSid',\\n {2}dedupe_window = '1 hour'/);
    await client.query(`ALTER TABLE plain SET (dedupe = 'sender:stripe', dedupe_window = '2 hours')`);
    assert.match(
      await shown('plain'),
      /dedupe = '\$\.id',\\n {2}dedupe_compare = '\$\.type, \$\.data',\\n {2}dedupe_window = '2 hours'/,
    );
    for (const to of [one, two])
      await within(5_000, async () => assert.match(await post(to, 'plain', '{"x":1}'), /^422/));
    for (const to of [one, two]) assert.equal(await post(to, 'plain', '{"id":"evt_1"}'), '200 {"rows":1}');
    assert.equal(await count(`plain WHERE data->>'id' = 'evt_1'`), 1);
    const explained = async (body: string) =>
      JSON.stringify((await client.query(`EXPLAIN VALIDATE plain WITH (body = '${body}')`)).rows);
    assert.match(await explained('{"id":7}'), /dedupe \$\.id.*has an id/);
    assert.match(await explained('{"id":null}'), /no id: 422 delivery_id_missing/);
    await client.query(`ALTER TABLE plain SET (dedupe = 'off')`);
    await within(5_000, async () => assert.equal(await post(two, 'plain', '{}'), '200 {"rows":1}'));
  });

  await t.test('of fifty secrets in simultaneous handshakes one is learned and used', async () => {
    await client.query(`
      CREATE SECRET brought WITH (backend = 'meta', learn = '10 minutes');
      CREATE TABLE asana (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET brought USING asana`);
    const event = '{"events":[]}';
    await within(5_000, async () => assert.match(await post(two, 'asana', event), /^503 .*table_unusable/));
    const secrets = Array.from({ length: 50 }, (_, i) => `secret-of-client-number-${i}`);
    // Some more than the rate of one Headgate lets through: those are told to come again.
    const answers = await Promise.all(
      secrets.map((secret, i) =>
        (i % 2 === 0 ? one : two).post('postgres/public/asana', '{}', { 'X-Hook-Secret': secret }),
      ),
    );
    const [learned, ...others] = answers.flatMap(({ status, headers }) =>
      status === 200 ? [headers.get('x-hook-secret') ?? ''] : [],
    );
    assert.deepEqual(others, []);
    assert(learned !== undefined && secrets.includes(learned));
    assert.deepEqual(
      new Set(answers.map(({ status }) => status).filter((status) => ![401, 429, 503].includes(status))),
      new Set([200]),
    );
    const signed = (secret: string) => ({
      'X-Hook-Signature': createHmac('sha256', secret).update(event).digest('hex'),
    });
    for (const to of [one, two])
      await within(5_000, async () => {
        assert.equal(await post(to, 'asana', event, signed(learned)), '200 ');
        const wrong = secrets.find((secret) => secret !== learned) ?? '';
        assert.match(await post(to, 'asana', event, signed(wrong)), /^401/);
      });
    const { rows: shown } = await client.query<{ Learned: string }>('SHOW SECRETS');
    const told = shown.map(({ Learned }) => Learned).find((it) => it !== null);
    assert.match(
      told ?? '',
      /^learned at .* from 127\.0\.0\.1; contested: another value came at .* from 127\.0\.0\.1$/,
    );
    assert(!JSON.stringify(shown).includes('secret-of-client'));
    // A sender whose answer was lost asks again; another one is nobody.
    await within(10_000, async () => {
      const again = await two.post('postgres/public/asana', '{}', { 'X-Hook-Secret': learned });
      assert.deepEqual([again.status, again.headers.get('x-hook-secret')], [200, learned]);
    });
    await assert.rejects(asStranger('SELECT headgate.learn_secret(NULL, NULL, NULL, NULL)'), {
      code: '42501',
    });
    await assert.rejects(asStranger(`SELECT headgate.reveal_learned('public', 'brought')`), {
      code: '42501',
    });
    assert.equal(
      (await asStranger('SHOW SECRETS')).every(({ Learned }) => Learned === null),
      true,
    );
  });

  await t.test(
    'headgate secrets reveal shows a learned secret once, and a closed learning window learns nothing',
    async () => {
      const reveal = () =>
        run(
          process.execPath,
          [cli, 'secrets', 'reveal', 'brought', `--database-url=${url}`, `--data-dir=${one.dataDir}`],
          {
            env: { ...process.env, HEADGATE_MASTER_KEY: key },
          },
        );
      const first = await reveal();
      assert.match(first.stdout, /^secret-of-client-number-\d+\n$/, first.stderr);
      const second = await reveal();
      assert.equal(second.stdout, '');
      assert.match(second.stderr, /was not learned, or was revealed before/);
      await client.query(`ALTER SECRET brought WITH (learn = '1 minute')`);
      await client.query(`UPDATE headgate.secret_learning SET until = now()`);
      await within(5_000, async () => {
        const late = await one.post('postgres/public/asana', '{}', {
          'X-Hook-Secret': 'a-secret-that-came-too-late',
        });
        assert.equal(late.status, 503);
      });
      await client.query(`ALTER SECRET brought AS 'given by its owner'`);
      const signed = {
        'X-Hook-Signature': createHmac('sha256', 'given by its owner').update('{}').digest('hex'),
      };
      await within(5_000, async () => assert.equal(await post(two, 'asana', '{}', signed), '200 '));
    },
  );

  for (const [statement, message] of refused)
    await t.test(`the statement is refused: ${statement}`, () =>
      assert.rejects(client.query(statement), { message }),
    );
});

const refused: readonly (readonly [string, RegExp])[] = [
  [
    `CREATE TABLE z (data JSONB) WITH (connector = 'webhook', dedupe = 'sender')`,
    /needs VALIDATE \.\.\. USING/,
  ],
  [`ALTER TABLE plain SET (dedupe = 'sender')`, /needs a table whose check is one of USING/],
  [`ALTER TABLE plain SET (dedupe = 'sender:nobody')`, /unknown sender "nobody"/],
  [`ALTER TABLE plain SET (dedupe = 'sender:paystack')`, /nobody has looked whether Paystack sends an id/],
  [`ALTER TABLE plain SET (dedupe = 'x-id')`, /is no place in a request/],
  [`ALTER TABLE plain SET (dedupe = 'header:Authorization')`, /carries a credential/],
  [`ALTER TABLE plain SET (dedupe_window = '1 year')`, /dedupe_window "1 year" is not known/],
  [`CREATE SECRET z WITH (backend = 'meta', learn = '1 second')`, /learn "1 second" is not known/],
  [`CREATE SECRET z WITH (backend = 'meta', learn = '1 minute') AS 'x'`, /syntax error/],
  [
    `ALTER TABLE asana ANSWER SECRET brought WHEN method = 'POST' LEARN brought = shaped(headers->>'a', 'token', 64)`,
    /LEARN needs UNCHECKED/,
  ],
  [
    `ALTER TABLE asana ANSWER SECRET brought UNCHECKED WHEN method = 'POST' LEARN brought = headers->>'a'`,
    /LEARN takes a shaped value/,
  ],
  [
    `ALTER TABLE asana ANSWER UNCHECKED WHEN method = 'POST' LEARN nobody = shaped(headers->>'a', 'token', 64)`,
    /no secret "nobody"/,
  ],
  [
    `ALTER TABLE asana ANSWER SECRET brought UNCHECKED WHEN method = 'POST' LEARN brought = shaped(headers->>'a', 'token', 64) BODY brought`,
    /reads no secret|cannot be shown/,
  ],
  [`ALTER TABLE lines SET (dedupe = '$.id')`, /needs a body that is one document/],
  [
    `CREATE TABLE z (n TEXT) WITH (connector = 'webhook', format = 'text', dedupe = '$.id')`,
    /needs a body that is one document/,
  ],
];
