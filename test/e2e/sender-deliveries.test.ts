/** Events that a sender's own ids do not tell apart: with `dedupe = 'sender'` each is a row, and a repetition is none. */
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { senders, signedRequest } from '../../src/senders/senders.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { quote } from '../support/senders.ts';

const shared = sharedHeadgate();

test('Viber: delivered and seen are two events of one message', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET bot WITH (backend = 'meta') AS 'token of the bot';
    CREATE TABLE viber (data JSONB) WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET bot USING viber`);
  for (const event of ['delivered', 'seen', 'seen']) {
    const body = JSON.stringify({
      event,
      message_token: 5_098_034_272_017_990_000n.toString(),
      timestamp: 1_457_764_197_627,
    });
    const signature = createHmac('sha256', 'token of the bot').update(body).digest('hex');
    const answer = await headgate.post('dev/public/viber', body, { 'X-Viber-Content-Signature': signature });
    assert.equal(answer.status, 200);
  }
  const { rows } = await client.query<{ event: string }>(
    `SELECT data->>'event' AS event FROM viber ORDER BY 1`,
  );
  assert.deepEqual(rows, [{ event: 'delivered' }, { event: 'seen' }]);
});

test('Adyen: a payment that has failed may succeed under the same reference', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  const sender = senders.get('adyen') ?? assert.fail();
  const { secret, signingKey } = sender.makeSecret(randomBytes);
  await client.query(`
    CREATE SECRET merchant WITH (backend = 'meta') AS ${quote(secret)};
    CREATE TABLE adyen (data JSONB) WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET merchant USING adyen`);
  const id = randomBytes(16).toString('hex');
  const nowMs = Date.now();
  for (const success of ['false', 'true', 'true']) {
    const text = sender.example({ id, nowMs }).replace('"success":"true"', `"success":"${success}"`);
    const draft = { method: 'POST', url: 'http://h/', body: Buffer.from(text), nowMs, signingKey, id };
    const { body } = signedRequest(sender, draft);
    assert.equal((await headgate.post('dev/public/adyen', body.toString())).status, 200);
  }
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM adyen');
  assert.equal(rows[0]?.n, 2);
});

test('Postmark: an event has no id, so there is no option that would take an opened message for a repetition', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await assert.rejects(
    client.query(`
      CREATE SECRET postmark_secret WITH (backend = 'meta') AS 'user:password';
      CREATE TABLE postmark (data JSONB) WITH (connector = 'webhook', dedupe = 'sender')
        VALIDATE SECRET postmark_secret USING postmark`),
    /Postmark sends no id that stays the same/,
  );
});
