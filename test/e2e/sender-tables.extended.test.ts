/** Tables with checks of senders and of one's own: what the page prints, what a changed entry leaves as it was, and the option dedupe = 'sender'. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Client } from 'pg';
import { commandsOf } from '../support/docs.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';

const shared = sharedHeadgate();

/** The blocks of docs/sql/validate.md for a signature of one's own, pasted one after the other. */
test('the documented check of a custom signature works', async (t) => {
  if (['curl', 'openssl', 'sh'].some((tool) => requireTool(t, tool) === null)) return;
  const headgate = await shared();
  const client = await headgate.client(t);
  const page = 'docs/sql/validate.md';
  await client.query(await commandsOf(page, 'own-table'));
  const request = (await commandsOf(page, 'own-request')).replace(
    'localhost:4560',
    `127.0.0.1:${headgate.ports.listen.port}`,
  );
  const sent = (text: string) => run('sh', ['-ec', text.replace('curl', 'curl -sS -w %{http_code}')]);
  assert.match((await sent(request)).stdout, /200$/);
  assert.match((await sent(request.replace('a long random key', 'another'))).stdout, /401$/);
  const { rows } = await client.query(await commandsOf(page, 'own-row'));
  assert.deepEqual(rows, [{ event: 'order.paid', data: { id: 7, status: 'paid' } }]);
});

const before = JSON.parse(
  readFileSync(new URL('../../../test/former-checks.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, string>>;

test('a table keeps the former check of its sender, with a notice, until ALTER TABLE … VALIDATE … USING', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  const notices: string[] = [];
  client.on('notice', ({ message = '' }) => notices.push(message));
  await client.query(`CREATE SECRET lin WITH (backend = 'meta') AS 'signing secret'`);
  const text = (before['linear'] ?? assert.fail()).replaceAll(':secret', 'lin');
  await client.query(
    `CREATE TABLE issues (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET lin AS ${text}`,
  );
  const post = async (ageMs: number) => {
    const body = JSON.stringify({ type: 'Issue', webhookTimestamp: Date.now() - ageMs });
    const signature = createHmac('sha256', 'signing secret').update(body).digest('hex');
    const answer = await headgate.post('dev/public/issues', body, { 'Linear-Signature': signature });
    return answer.status;
  };
  assert.deepEqual([await post(0), await post(3_600_000)], [200, 401]);
  const shown = async () => {
    const { rows } = await client.query<{ 'Create Sql': string }>('SHOW CREATE TABLE issues');
    return rows[0]?.['Create Sql'] ?? '';
  };
  const isSaid = /USING linear stood for another check until .*a signature is valid for 8 hours/;
  notices.length = 0;
  assert(squeezed(await shown()).includes(squeezed(text)));
  assert.match(notices.join('\n'), /^table "issues" keeps a former check of its sender: /);
  assert.match(notices.splice(0).join('\n'), isSaid);

  await client.query(
    `CREATE TABLE IF NOT EXISTS issues (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET lin USING linear`,
  );
  assert.match(notices.join('\n'), /table "issues" keeps the check that it has; /);
  assert.match(notices.splice(0).join('\n'), isSaid);
  assert.equal(await post(3_600_000), 401);

  await client.query('ALTER TABLE issues VALIDATE SECRET lin USING linear');
  assert.match(notices.splice(0).join('\n'), isSaid);
  assert.deepEqual([await post(0), await post(3_600_000), await post(9 * 3_600_000)], [200, 200, 401]);
  assert(squeezed(await shown()).includes('28800000'));
  await client.query('ALTER TABLE issues VALIDATE SECRET lin USING linear');
  assert.deepEqual(notices, []);

  // Whoever begins now has nothing to learn of before.
  await client.query(
    `CREATE TABLE more (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET lin USING linear`,
  );
  assert.deepEqual(notices, []);
});

const squeezed = (text: string) => text.replaceAll(/\s+/g, ' ');

async function optionsOf(client: Client, table: string): Promise<Record<string, string>> {
  const { rows } = await client.query<{ options: Record<string, string> }>(
    `SELECT options FROM headgate.webhook_table WHERE relation = $1::regclass`,
    [table],
  );
  return rows[0]?.options ?? {};
}

test("dedupe = 'sender' uses the check's sender and stores its repetitions once", async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET s WITH (backend = 'meta') AS 'the-key';
    CREATE TABLE st (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING stripe;
    CREATE TABLE gh (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING github;
    CREATE TABLE bare (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(headers->>'x', s);
    CREATE TABLE unchecked (data JSONB) WITH (connector = 'webhook')`);
  await client.query(`ALTER TABLE st SET (dedupe = 'sender', dedupe_window = '1 day')`);
  assert.deepEqual(await optionsOf(client, 'st'), {
    ...(await optionsOf(client, 'st')),
    dedupe: '$.id',
    dedupe_compare: '$.type, $.data',
    dedupe_window: '1 day',
  });
  // By the extended protocol, and with the schema.
  await client.query(`ALTER TABLE st SET (dedupe = 'off')`);
  await client.query({ name: 'named', text: `ALTER TABLE public.st SET (dedupe = 'sender')` });
  assert.equal((await optionsOf(client, 'st'))['dedupe'], '$.id');

  // It is in force within a second; this statement waits for that.
  await client.query('SHOW ENDPOINTS');
  // https://docs.stripe.com/webhooks#verify-manually; pending_webhooks counts down.
  for (const pending of [2, 1]) {
    const body = JSON.stringify({ id: 'evt_1', type: 'a', data: { n: 1 }, pending_webhooks: pending });
    const at = String(Math.floor(Date.now() / 1_000));
    const proof = createHmac('sha256', 'the-key').update(`${at}.${body}`).digest('hex');
    const headers = { 'Stripe-Signature': `t=${at},v1=${proof}` };
    assert.equal((await headgate.post('dev/public/st', body, headers)).status, 200);
  }
  assert.equal((await client.query('SELECT FROM st')).rowCount, 1);

  // Meta signs as GitHub does, and has no id.
  await assert.rejects(client.query(`ALTER TABLE gh SET (dedupe = 'sender')`), {
    code: '22023',
    message:
      "the table's check is that of several senders, github, meta, and no secret is named after one: dedupe = 'sender' does not say which",
    hint: "Name it: dedupe = 'sender:github'.",
  });

  // As that of the README: SHOW ENDPOINTS takes the name of the secret for a sign, too.
  await client.query(`CREATE SECRET github_secret WITH (backend = 'meta') AS 'the-key';
    CREATE TABLE pushes (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET github_secret USING github`);
  await client.query(`ALTER TABLE pushes SET (dedupe = 'sender')`);
  assert.equal((await optionsOf(client, 'pushes'))['dedupe'], 'header:x-github-delivery');

  for (const table of ['bare', 'unchecked', 'nowhere'])
    await assert.rejects(client.query(`ALTER TABLE ${table} SET (dedupe = 'sender')`), {
      code: '22023',
      message: /needs a table whose check is one of USING/,
      hint: /^Name the sender: dedupe = 'sender:<name>'\./,
    });
  await assert.rejects(
    client.query(`CREATE TABLE z (data JSONB) WITH (connector = 'webhook', dedupe = 'sender')`),
    { code: '22023', hint: /'sender:<name>'/ },
  );
});
