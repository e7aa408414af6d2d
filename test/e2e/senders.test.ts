/** Every sender that Headgate knows, with `USING` at the SQL door and `headgate send` at the listener. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { senderPage } from '../../src/senders/sender-page.ts';
import { eachEvent, keyedTable } from '../../src/senders/dedupe.ts';
import type { Sender } from '../../src/senders/sender.ts';
import { expressionOf, senders } from '../../src/senders/senders.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';
import { run } from '../support/run.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { createSenderTable, dropSenderTable, publicUrl, quote, send } from '../support/senders.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

const shared = sharedHeadgate({ args: [`--public-url=${publicUrl}`] });

/** The statement of the page that says what USING stands for, for the table and the secrets of a test. */
function spelledOut(sender: Sender, table: string): string {
  const blocks = senderPage(sender).split('```sql\n');
  const statement = blocks.find((it) => it.startsWith('CREATE TABLE') && it.includes('_secret AS\n')) ?? '';
  return (statement.split('```')[0] ?? '')
    .replaceAll(`${sender.id}_events`, table)
    .replaceAll(`${sender.id}_secret`, `${table}_key`)
    .replaceAll(`${sender.id}_answer`, `${table}_second`);
}

/** Each of them is one pure test of src/senders already, and all of them are here in the long run. */
const tried = sampleOf([...senders.values()], 8);

test("each sender's signed request becomes a row, and a forged one gets 401", async (t) => {
  t.diagnostic(sampleSeed);
  const headgate = await shared();
  const client = await headgate.client(t);
  for (const sender of tried) {
    const table = `t_${sender.id}`;
    const keys = sender.makeSecret(randomBytes);
    await createSenderTable(client, table, sender.id, keys.secret, sender.answerSecret && 'a second secret');
    const request = {
      sender: sender.id,
      url: `${headgate.webhookUrl}/dev/public/${table}`,
      signedUrl: `${publicUrl}/webhook/dev/public/${table}`,
    };
    const sent = await send({ ...request, secret: keys.signingKey });
    assert.match(sent.printed, /^HTTP 20[04]\n/, sender.id);
    const forged = await send({ ...request, secret: sender.makeSecret(randomBytes).signingKey });
    assert.match(forged.printed, /^HTTP 401\n\{"error":"Signature verification failed"/, sender.id);
    if (sender.toleranceS !== null) {
      const stale = await send({ ...request, secret: keys.signingKey, stale: true });
      assert.equal(stale.code, 0, `${sender.id}, stale: ${stale.printed}`);
    }
    const { rows } = await client.query<{ n: number }>(`select count(*)::int as n from ${table}`);
    assert.equal(rows[0]?.n, 1, sender.id);
    // The page shows what SHOW CREATE TABLE shows, and what each of them shows makes the same table.
    const show = `SHOW CREATE TABLE ${table}`;
    const shown = await client.query<Record<string, string>>(show);
    const sql = Object.values(shown.rows[0] ?? {}).at(-1) ?? '';
    const expression = expressionOf(sender, `${table}_key`);
    assert(sql.includes(`VALIDATE SECRET public.${table}_key AS ${expression}`), sql);
    const asks = sender.answers({ secret: 'k', answer: 'second' }).length > 0;
    for (const statement of [spelledOut(sender, table), ...(asks ? [sql] : [])]) {
      await client.query(`DROP TABLE ${table}`);
      await client.query(statement);
      const again =
        Object.values((await client.query<Record<string, string>>(show)).rows[0] ?? {}).at(-1) ?? '';
      // The page indents what it spells out.
      assert.equal(again.replaceAll(/\n +/g, '\n'), sql.replaceAll(/\n +/g, '\n'), sender.id);
    }
    await dropSenderTable(client, table);
  }
});

test('the documented SQL of each sender stores a repeated delivery once, and its query returns each event once', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  for (const sender of tried) {
    if (sender.delivery.kind !== 'known') continue;
    const table = `r_${sender.id}`;
    const keys = sender.makeSecret(randomBytes);
    const keyed = keyedTable(sender, table, `${table}_key`);
    if (keyed === null) await createSenderTable(client, table, sender.id, keys.secret);
    else {
      await client.query(`CREATE SECRET ${table}_key WITH (backend = 'meta') AS ${quote(keys.secret)}`);
      await client.query(keyed);
    }
    const request = {
      sender: sender.id,
      url: `${headgate.webhookUrl}/dev/public/${table}`,
      signedUrl: `${publicUrl}/webhook/dev/public/${table}`,
      secret: keys.signingKey,
    };
    const twice = await send({ ...request, id: 'one', repeat: '2' });
    assert.match(twice.printed, /^1\/2 HTTP 200\n[^]*2\/2 HTTP 200\n/, `${sender.id}: ${twice.printed}`);
    const { printed } = await send({ ...request, id: 'two' });
    assert.match(printed, /^HTTP 200\n/, `${sender.id}: ${printed}`);
    const { rows } = await client.query(eachEvent(sender, table) ?? `SELECT data FROM ${table}`);
    assert.equal(rows.length, 2, sender.id);
    await dropSenderTable(client, table);
  }
});

test('the documented query finds the address of the certificate in a refused SNS request', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  const sns = senders.get('aws_sns');
  assert(sns !== undefined);
  const page = senderPage(sns);
  const keys = sns.makeSecret(randomBytes);
  await client.query(`
    CREATE SECRET aws_sns_secret WITH (backend = 'meta') AS ${quote(sns.makeSecret(randomBytes).secret)};
    CREATE TABLE aws_sns_events (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET aws_sns_secret USING aws_sns`);
  const request = {
    sender: 'aws_sns',
    url: `${headgate.webhookUrl}/dev/public/aws_sns_events`,
    secret: keys.signingKey,
  };
  assert.match((await send(request)).printed, /^HTTP 401\n/);
  const query = /`(SELECT convert_from\(body[^`]*)`/.exec(page)?.[1] ?? '';
  await within(5_000, async () => {
    const { rows } = await client.query<Record<string, string>>(query);
    assert.match(Object.values(rows[0] ?? {})[0] ?? '', /^https:\/\/sns\.eu-west-1\.amazonaws\.com\//);
  });
  await client.query(`ALTER SECRET aws_sns_secret AS ${quote(keys.secret)}`);
  await within(5_000, async () => assert.match((await send(request)).printed, /^HTTP 200\n/));
  const confirmation = /`(SELECT data->>'SubscribeURL'[^`]*)`/.exec(page)?.[1] ?? '';
  assert.deepEqual((await client.query(confirmation)).rows, []);
});

test('headgate send sends one or many requests, or a given body, and refuses an unknown sender', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await createSenderTable(client, 'hooks', 'standard_webhooks', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
  const url = `${headgate.webhookUrl}/dev/public/hooks`;
  const headgateSend = (...args: string[]) => run(process.execPath, [cli, 'send', ...args]);
  const key = ['--secret', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'];
  const one = await headgateSend('standard_webhooks', '--url', url, ...key);
  assert.deepEqual(one, { code: 0, stdout: 'HTTP 200\n', stderr: '' });
  const wrong = await headgateSend('standard_webhooks', '--url', url, '--secret', 'whsec_AAAA');
  assert.equal(wrong.code, 1);
  assert.match(wrong.stdout, /^HTTP 401\n/);
  const many = await headgateSend('standard_webhooks', '--url', url, ...key, '--count', '300');
  assert.equal(many.code, 0);
  assert.match(many.stdout, /^300 of 300 answered[^]*\n200 {2}300\np50 /);
  const rows = await client.query<{ n: number }>(`select count(distinct data)::int as n from hooks`);
  assert.equal(rows.rows[0]?.n, 301);
  const own = await run(
    process.execPath,
    [cli, 'send', 'standard_webhooks', '--url', url, ...key, '--body', '-'],
    {
      input: '{"mine": 1.10}',
    },
  );
  assert.equal(own.code, 0);
  const mine = await client.query<{ text: string }>(
    `select data::text as text from hooks where data ? 'mine'`,
  );
  assert.deepEqual(mine.rows, [{ text: '{"mine": 1.10}' }]);
  const unknown = await headgateSend('standard_webhook', '--url', url, ...key);
  assert.deepEqual([unknown.code, unknown.stdout], [1, '']);
  assert.match(unknown.stderr, /^headgate: unknown sender "standard_webhook": Perhaps standard_webhooks/);
});

test('VALIDATE with two secrets accepts the old and the new one during a rotation', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await createSenderTable(client, 'changing', 'github', 'old');
  await client.query(`CREATE SECRET fresh WITH (backend = 'meta') AS 'new'`);
  const url = `${headgate.webhookUrl}/dev/public/changing`;
  const codes = async () => [
    (await send({ sender: 'github', url, secret: 'old' })).code,
    (await send({ sender: 'github', url, secret: 'new' })).code,
    (await send({ sender: 'github', url, secret: 'other' })).code,
  ];
  assert.deepEqual(await codes(), [0, 1, 1]);
  await client.query('ALTER TABLE changing VALIDATE SECRET changing_key, fresh USING github');
  await within(1_000, async () => assert.deepEqual(await codes(), [0, 0, 1]));
  await client.query('ALTER TABLE changing VALIDATE SECRET fresh USING github');
  await within(1_000, async () => assert.deepEqual(await codes(), [1, 0, 1]));
  await assert.rejects(client.query('ALTER TABLE changing VALIDATE SECRET fresh USING githup'), {
    code: '22023',
    message: 'unknown sender "githup"',
    hint: /^Perhaps github\?/,
    position: '50',
  });
});

test('Ctrl-C ends headgate send with a summary of the answers and exit code 130', async (t) => {
  const server = createServer((_, response) => {
    response.end();
    if (++answered === 5) child.kill('SIGINT');
  });
  let answered = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const args = ['send', 'github', '--url', url, '--secret', 'x', '--count', '1000000', '--rate', '200/s'];
  const child = spawn(process.execPath, [cli, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  assert.deepEqual(await once(child, 'close'), [130, null]);
  assert.match(printed, /^\d+ of 1000000 answered in [^]*\n200 {2}\d+\np50 /);
});
