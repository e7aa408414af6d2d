/** ALTER TABLE … SET (dedupe = 'sender'): the sender is that of the table's check. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import type { Client } from 'pg';
import { startHeadgate } from '../support/headgate.ts';

async function optionsOf(client: Client, table: string): Promise<Record<string, string>> {
  const { rows } = await client.query<{ options: Record<string, string> }>(
    `SELECT options FROM headgate.webhook_table WHERE relation = $1::regclass`,
    [table],
  );
  return rows[0]?.options ?? {};
}

suite(`ALTER TABLE SET (dedupe = 'sender')`, () => {
  test("dedupe = 'sender' uses the check's sender and stores its repetitions once", async (t) => {
    const headgate = await startHeadgate(t);
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
      message: "the table's check is that of several senders: github, meta",
      hint: "Name it: dedupe = 'sender:github'.",
    });

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
});
