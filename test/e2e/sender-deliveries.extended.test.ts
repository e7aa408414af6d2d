/** Events that a sender's own ids do not tell apart: with `dedupe = 'sender'` each is a row, and a repetition is none. */
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { eachEvent } from '../../src/senders/dedupe.ts';
import { expressionOf, senders, signedRequest } from '../../src/senders/senders.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { quote } from '../support/senders.ts';

const shared = sharedHeadgate();

test("Viber's delivered and seen are two deliveries of one message", async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET bot WITH (backend = 'meta') AS 'token of the bot';
    CREATE TABLE viber (data JSONB) WITH (connector = 'webhook', dedupe = '$.event, $.message_token') VALIDATE SECRET bot USING viber`);
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

test("Adyen's failed and successful notifications of one reference are two deliveries, and a repetition is none", async (t) => {
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

test("dedupe = 'sender' is refused for Postmark, whose events have no id", async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await assert.rejects(
    client.query(`
      CREATE SECRET postmark_secret WITH (backend = 'meta') AS 'user:password';
      CREATE TABLE postmark (data JSONB) WITH (connector = 'webhook', dedupe = 'sender')
        VALIDATE SECRET postmark_secret USING postmark`),
    /Postmark gives its events no id/,
  );
});

const post = async (url: string, body: string, headers: Record<string, string>) => {
  const answer = await fetch(url, { method: 'POST', body, headers });
  return answer.status;
};

const base64Hmac = (key: string, ...parts: readonly string[]) =>
  createHmac('sha256', key).update(parts.join('')).digest('base64');

test("WooCommerce orders that share a delivery id are all stored, and dedupe = 'sender' is refused", async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`CREATE SECRET shop WITH (backend = 'meta') AS 'shop key'`);
  const table = (more: string) =>
    `CREATE TABLE woo (data JSONB) WITH (connector = 'webhook'${more}) VALIDATE SECRET shop USING woocommerce`;
  await assert.rejects(client.query(table(`, dedupe = 'sender'`)), {
    code: '22023',
    message:
      /^WooCommerce never repeats a delivery, and X-WC-Webhook-Delivery-ID is a hash of the webhook and the second/,
    hint: /^Store every request/,
  });
  await client.query(table(''));
  // get_new_delivery_id() of class-wc-webhook.php: wp_hash(webhook id . strtotime('now')).
  const delivery = createHmac('md5', 'salt').update('7:1764000000').digest('hex');
  for (const id of [101, 102, 103, 104]) {
    const body = JSON.stringify({ id, status: 'processing' });
    const headers = {
      'X-WC-Webhook-Delivery-ID': delivery,
      'X-WC-Webhook-Signature': base64Hmac('shop key', body),
    };
    assert.equal((await headgate.post('dev/public/woo', body, headers)).status, 200);
  }
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM woo');
  assert.equal(rows[0]?.n, 4);
});

test('GitLab events that share X-Gitlab-Event-UUID are all stored, and a resend with the same Idempotency-Key is not', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET lab WITH (backend = 'meta') AS 'token';
    CREATE TABLE lab (data JSONB) WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET lab USING gitlab`);
  for (const [uuid, key] of [
    ['one', 'a'],
    ['one', 'b'],
    ['one', 'c'],
    ['resent', 'c'],
  ] as const) {
    const headers = { 'X-Gitlab-Token': 'token', 'X-Gitlab-Event-UUID': uuid, 'Idempotency-Key': key };
    const body = JSON.stringify({ object_kind: 'push', key });
    assert.equal((await headgate.post('dev/public/lab', body, headers)).status, 200);
  }
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM lab');
  assert.equal(rows[0]?.n, 3);
});

test('a Box retry with another BOX-DELIVERY-ID and the same id in its body is stored once', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET box_key WITH (backend = 'meta') AS 'primary';
    CREATE TABLE box (data JSONB) WITH (connector = 'webhook', dedupe = 'sender') VALIDATE SECRET box_key USING box`);
  for (const [delivery, id] of [
    ['d1', 'event 1'],
    ['d2', 'event 1'],
    ['d3', 'event 2'],
  ] as const) {
    const body = JSON.stringify({ type: 'webhook_event', id });
    const time = new Date().toISOString();
    const headers = {
      'BOX-DELIVERY-ID': delivery,
      'BOX-DELIVERY-TIMESTAMP': time,
      'BOX-SIGNATURE-PRIMARY': base64Hmac('primary', body, time),
    };
    assert.equal((await headgate.post('dev/public/box', body, headers)).status, 200);
  }
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM box');
  assert.equal(rows[0]?.n, 2);
});

test('the documented query of each sender that sends lists returns each event once', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  const read = async (id: string, stored: readonly unknown[]) => {
    await client.query('CREATE TABLE stored (data JSONB)');
    for (const data of stored) await client.query('INSERT INTO stored VALUES ($1)', [JSON.stringify(data)]);
    const { rows } = await client.query(
      eachEvent(senders.get(id) ?? assert.fail(), 'stored') ?? assert.fail(id),
    );
    await client.query('DROP TABLE stored');
    return rows.length;
  };
  // One message of Mandrill's is sent, opened and clicked; then the request comes again.
  const mail = ['send', 'open', 'click'].map((event) => ({ event, _id: 'message', ts: 1 }));
  const mandrill = { mandrill_events: JSON.stringify(mail) };
  assert.equal(await read('mandrill', [mandrill, mandrill]), 3);
  // Two people unsubscribe: SendGrid gives such events no id.
  const leaving = ['a@example.com', 'b@example.com'].map((email) => ({
    email,
    event: 'unsubscribe',
    timestamp: 1,
  }));
  assert.equal(await read('sendgrid', [leaving, leaving]), 2);
  // HubSpot says that its eventId is not guaranteed to be unique.
  const changes = ['contact.creation', 'deal.creation'].map((subscriptionType) => ({
    eventId: 1,
    subscriptionType,
  }));
  assert.equal(await read('hubspot', [changes, changes]), 2);
  // LINE's webhookEventId is one per event; an event without one is no other event's repetition.
  const chat = [{ webhookEventId: '1', n: 1 }, { webhookEventId: '1', n: 1 }, { n: 2 }, { n: 3 }];
  assert.equal(await read('line', [{ events: chat }]), 3);
});

test("RingCentral's Validation-Token is echoed, and only the secret in Verification-Token lets an event in", async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET ring WITH (backend = 'meta') AS 'our verification token';
    CREATE TABLE ring (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET ring USING ringcentral`);
  const url = `${headgate.webhookUrl}/dev/public/ring`;
  const asked = await fetch(url, { method: 'POST', headers: { 'Validation-Token': 'c9d1b2f0-theirs' } });
  assert.deepEqual([asked.status, asked.headers.get('validation-token')], [200, 'c9d1b2f0-theirs']);
  const event = JSON.stringify({ uuid: '1', event: '/restapi/v1.0/account/~' });
  assert.equal(await post(url, event, { 'Validation-Token': 'our verification token' }), 401);
  assert.equal(await post(url, event, { 'Validation-Token': 'c9d1b2f0-theirs' }), 401);
  assert.equal(await post(url, event, { 'Verification-Token': 'our verification token' }), 200);
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM ring');
  assert.equal(rows[0]?.n, 1);
});

test("Shopify's signature is also accepted in Shopify-Hmac-Sha256 without X-, and a wrong one gets 401", async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET app WITH (backend = 'meta') AS 'client secret';
    CREATE TABLE orders (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET app USING shopify`);
  const url = `${headgate.webhookUrl}/dev/public/orders`;
  const body = JSON.stringify({ id: 1 });
  assert.equal(await post(url, body, { 'Shopify-Hmac-Sha256': base64Hmac('client secret', body) }), 200);
  assert.equal(await post(url, body, { 'Shopify-Hmac-Sha256': base64Hmac('another', body) }), 401);
  assert.equal(await post(url, body, {}), 401);
});

test('USING accepts other names of a sender, and the error for an unknown one names the right one', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  await client.query(
    `CREATE SECRET any_key WITH (backend = 'meta') AS 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'`,
  );
  const using = (name: string) =>
    client.query(
      `CREATE TABLE found (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET any_key USING ${name}`,
    );
  const shown = async () => {
    const { rows } = await client.query<Record<string, string>>('SHOW CREATE TABLE found');
    return Object.values(rows[0] ?? {}).at(-1) ?? '';
  };
  for (const [alias, id] of [
    ['facebook', 'meta'],
    ['WhatsApp', 'meta'],
    ['twitter', 'x'],
    ['intuit', 'quickbooks'],
    ['apple', 'app_store'],
    ['amazon_sns', 'aws_sns'],
    ['replicate', 'standard_webhooks'],
    ['brex', 'standard_webhooks'],
    ['stytch', 'svix'],
    ['hellosign', 'dropbox_sign'],
  ] as const) {
    const check = expressionOf(senders.get(id) ?? assert.fail(id), 'any_key').replace(
      'any_key',
      'public.any_key',
    );
    await using(alias);
    assert((await shown()).includes(check.slice(0, 40).split('(')[0] ?? ''), alias);
    await client.query('DROP TABLE found');
  }
  for (const [name, hint] of [
    ['jotform', /^Jotform signs nothing/],
    ['gmail', /^Gmail notifies through Pub\/Sub: USING google_pubsub/],
    ['etsy', /^All of them are in docs/],
    ['stripee', /^Perhaps stripe\?/],
  ] as const)
    await assert.rejects(using(name), { code: '22023', message: `unknown sender "${name}"`, hint });
});

test('CREATE TABLE warns of a sender whose service has ended', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  const warned: string[] = [];
  client.on('notice', ({ message }) => warned.push(message ?? ''));
  await client.query(`
    CREATE SECRET tracker WITH (backend = 'meta') AS 'client secret';
    CREATE TABLE tracker (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET tracker USING fitbit`);
  assert(
    warned.some((text) => text.includes('has sent nothing since 2 November 2026')),
    warned.join('\n'),
  );
});
