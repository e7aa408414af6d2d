/** What somebody without the key can have signed elsewhere, or can sign with what everybody knows: none of it becomes a row. */
import assert from 'node:assert/strict';
import { createHmac, createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { test } from 'node:test';
import { senders, signedRequest } from '../../src/senders/senders.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { createSenderTable, publicUrl, quote } from '../support/senders.ts';

const shared = sharedHeadgate({ args: [`--public-url=${publicUrl}`] });

const post = async (url: string, body: string) => {
  const answer = await fetch(url, { method: 'POST', body });
  await answer.text();
  return answer.status;
};

/** The text that SNS signs. */
const snsText = (message: Readonly<Record<string, string>>) =>
  ['Message', 'MessageId', 'Timestamp', 'TopicArn', 'Type']
    .map((name) => `${name}\n${message[name] ?? ''}\n`)
    .join('');

test("an SNS message of another topic with line breaks in it does not pass as one of the table's topic", async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const certificate = quote(publicKey.export({ type: 'spki', format: 'pem' }).toString());
  const ours = 'arn:aws:sns:eu-west-1:123456789012:orders';
  const theirs = 'arn:aws:sns:eu-west-1:999999999999:theirs';
  await client.query(`
    CREATE SECRET amazon WITH (backend = 'meta') AS ${certificate};
    CREATE TABLE by_using (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET amazon USING aws_sns;
    CREATE TABLE by_topic (data JSONB) WITH (connector = 'webhook', sns_topics = '${ours}') VALIDATE SECRET amazon AS
      rsa_verify(amazon, convert_to('Message' || E'\\n' || (convert_from(payload, 'UTF8')::jsonb->>'Message') || E'\\n'
        || 'MessageId' || E'\\n' || (convert_from(payload, 'UTF8')::jsonb->>'MessageId') || E'\\n'
        || 'Timestamp' || E'\\n' || (convert_from(payload, 'UTF8')::jsonb->>'Timestamp') || E'\\n'
        || 'TopicArn' || E'\\n' || (convert_from(payload, 'UTF8')::jsonb->>'TopicArn') || E'\\n'
        || 'Type' || E'\\n' || (convert_from(payload, 'UTF8')::jsonb->>'Type') || E'\\n', 'UTF8'),
        decode(convert_from(payload, 'UTF8')::jsonb->>'Signature', 'base64'), 'sha256')`);
  const rest = { MessageId: '1', Timestamp: '2026-01-02T03:04:05.678Z', Type: 'Notification' };
  const forged = { ...rest, Message: 'forged', TopicArn: ours };
  // What the owner of any topic may publish there. SNS signs it, with what it adds.
  const published = { ...rest, Message: snsText(forged).slice('Message\n'.length, -1), TopicArn: theirs };
  const text = snsText(published);
  const signed = (message: object, of: string) =>
    JSON.stringify({
      ...message,
      SignatureVersion: '2',
      Signature: sign('sha256', Buffer.from(of), privateKey).toString('base64'),
    });
  const Type = text.slice(text.indexOf('\nType\n') + '\nType\n'.length, -1);
  assert.equal(snsText({ ...forged, Type }), text, 'both are the same signed text');
  for (const table of ['by_using', 'by_topic']) {
    const url = `${headgate.webhookUrl}/dev/public/${table}`;
    assert.equal(await post(url, signed({ ...forged, Type }, text)), 401, table);
    assert.equal(await post(url, signed(forged, snsText(forged))), 200, table);
  }
});

test('an App Store public key without PEM lines as the secret accepts no HMAC with that text', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  const sender = senders.get('app_store') ?? assert.fail();
  const keys = sender.makeSecret(randomBytes);
  const bare = createPublicKey(keys.secret).export({ type: 'spki', format: 'der' }).toString('base64');
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const text = `${part({ alg: 'HS256' })}.${part({ notificationType: 'REFUND' })}`;
  const texts = { bare, listed: JSON.stringify([bare]), wrapped: JSON.stringify({ key: bare }) };
  for (const [table, secret] of Object.entries(texts)) {
    await createSenderTable(client, table, 'app_store', secret);
    const signedPayload = `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
    const url = `${headgate.webhookUrl}/dev/public/${table}`;
    assert.equal(await post(url, JSON.stringify({ signedPayload })), 401, table);
  }
});

test('a signed App Store transaction is not accepted as a notification', async (t) => {
  const headgate = await shared();
  const client = await headgate.client(t);
  const sender = senders.get('app_store') ?? assert.fail();
  const keys = sender.makeSecret(randomBytes);
  await createSenderTable(client, 'apple', 'app_store', keys.secret);
  const url = `${headgate.webhookUrl}/dev/public/apple`;
  const sent = async (claims: object) => {
    const draft = { method: 'POST', url, nowMs: Date.now(), signingKey: keys.signingKey, id: '0'.repeat(32) };
    const { body } = signedRequest(sender, { ...draft, body: Buffer.from(JSON.stringify(claims)) });
    return post(url, body.toString());
  };
  assert.equal(await sent({ notificationType: 'TEST' }), 200);
  assert.equal(await sent({ transactionId: '1', productId: 'pro' }), 401);
});

test('CREATE TABLE does not warn of a sender that signs the URL if HEADGATE_PUBLIC_URL is set', async (t) => {
  const client = await (await shared()).client(t);
  client.on('notice', ({ severity, message }) => assert.notEqual(severity, 'WARNING', message));
  await client.query(`CREATE SECRET square_key WITH (backend = 'meta') AS 'abc';
    CREATE TABLE squared (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET square_key USING square`);
});
