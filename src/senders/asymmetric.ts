/** Senders that sign with a private key, or with a JSON Web Token: Headgate stores the public part. */
import { createHash, createPublicKey, sign } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { body, fresh, header, headerOperand, utf8 } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Sender, same, sender } from './sender.ts';
import {
  es256,
  hs256,
  isoSeconds,
  isoTime,
  numeric,
  p256Pair,
  privateKey,
  privateText,
  publicPem,
  rsaPair,
  seconds,
  token,
  uuid,
} from './signing.ts';

const theme = 'A public key';
const sendgridTime = 'X-Twilio-Email-Event-Webhook-Timestamp';
const sendgridSignature = 'X-Twilio-Email-Event-Webhook-Signature';

/** The fields of an SNS message that are signed, in this order; the optional ones only if they are present. */
const snsFields = [
  'Message',
  'MessageId',
  'Subject?',
  'SubscribeURL?',
  'Timestamp',
  'Token?',
  'TopicArn',
  'Type',
];
const snsSigned = snsFields
  .map((name) => {
    const key = name.replace('?', '');
    const lines = `'${key}' || E'\\n' || (${body}->>'${key}') || E'\\n'`;
    return name.endsWith('?') ? `coalesce(${lines}, '')` : lines;
  })
  .join('\n      || ');
/**
 * The type ends the signed text. It may not be longer than it is at SNS: whatever follows in another topic's text, with that
 * topic's ARN in it, would otherwise pass for the rest of the type.
 */
const snsTyped = `${body}->>'Type' IN ('Notification', 'SubscriptionConfirmation', 'UnsubscribeConfirmation')`;

function snsText(message: Readonly<Record<string, unknown>>): string {
  return snsFields
    .map((name) => name.replace('?', ''))
    .filter((key) => message[key] !== undefined)
    .map((key) => `${key}\n${String(message[key])}\n`)
    .join('');
}

const paypal = ['PAYPAL-TRANSMISSION-SIG', 'PAYPAL-TRANSMISSION-ID', 'PAYPAL-TRANSMISSION-TIME'] as const;

export const asymmetricSenders: readonly Sender[] = [
  sender(theme, {
    id: 'sendgrid',
    secretForm: forms.ecKey,
    name: 'SendGrid event webhook',
    toleranceS: 300,
    headers: [sendgridSignature, sendgridTime],
    secret: {
      what: 'the verification key: an ECDSA public key in base64',
      where: 'Settings → Mail Settings → Event Webhooks',
    },
    deliveryId: { ofEach: 'sg_event_id', what: 'event' },
    steps: [
      'Open Settings → Mail Settings → Event Webhooks and create one with the URL of the table.',
      'Switch “Signature Verification” on, save, and copy the verification key.',
    ],
    notes: ['One request is an array of events; it is stored as one row.'],
    expression: (s) =>
      `${fresh(header(sendgridTime), 300)}\n  AND ecdsa_verify(decode(${s}, 'base64'), ${utf8(header(sendgridTime))} || payload,\n    ` +
      `decode(${header(sendgridSignature)}, 'base64'), 'sha256')`,
    sign: ({ body, nowMs, signingKey }) => {
      const signed = Buffer.concat([Buffer.from(seconds(nowMs)), body]);
      return {
        headers: {
          [sendgridTime]: seconds(nowMs),
          [sendgridSignature]: sign('sha256', signed, privateKey(signingKey)).toString('base64'),
        },
      };
    },
    paired: true,
    makeSecret: () => {
      const pair = p256Pair();
      return {
        secret: pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
        signingKey: privateText(pair.privateKey),
      };
    },
    // Their bodies end with a line break, which is signed.
    example: ({ id, nowMs }) =>
      `${JSON.stringify([
        {
          email: 'zoe@example.com',
          event: 'delivered',
          sg_event_id: id,
          timestamp: Math.floor(nowMs / 1000),
        },
      ])}\r\n`,
  }),
  sender(theme, {
    id: 'paypal',
    secretForm: forms.paypal,
    name: 'PayPal',
    headers: paypal,
    secret: {
      what: 'JSON that contains the webhook’s id and the certificate (PEM): `{"webhook_id": "…", "cert": "-----BEGIN CERTIFICATE-----\\n…"}`',
      where:
        'the id in the app’s webhook settings, the certificate at the URL in the header PAYPAL-CERT-URL of a delivery (on a paypal.com host)',
    },
    deliveryId: { fields: [['id']] },
    steps: [
      'In the Developer Dashboard open the app → Webhooks → Add Webhook with the URL of the table.',
      'Copy the webhook’s id; fetch the certificate by hand and put both into the secret.',
    ],
    notes: [
      'Headgate never fetches a certificate that a request names. PayPal occasionally changes its certificate: then use `ALTER SECRET`.',
      'Of the body PayPal signs the CRC-32, which is no digest: anyone who has seen one request can send other bodies that have the same. Keep requests secret, use HTTPS all the way, and ask PayPal’s API before you rely on an event that costs money.',
      'PayPal specifies no tolerance, and a retry may be days old, so the age is not checked.',
    ],
    expression: (s) =>
      `rsa_verify(${s}::jsonb->>'cert',\n  ${utf8(
        `${headerOperand(paypal[1])} || '|' || ${headerOperand(paypal[2])} || '|' || (${s}::jsonb->>'webhook_id') || '|' || crc32(payload)::text`,
      )},\n  decode(${header(paypal[0])}, 'base64'), 'sha256')`,
    sign: ({ body, nowMs, signingKey, id }) => {
      const keys = JSON.parse(signingKey) as { webhook_id: string; private_key: string };
      const [signature, transmission, time] = paypal;
      const signed = `${uuid(id)}|${isoSeconds(nowMs)}|${keys.webhook_id}|${crc32(body)}`;
      return {
        headers: {
          [transmission]: uuid(id),
          [time]: isoSeconds(nowMs),
          'PAYPAL-AUTH-ALGO': 'SHA256withRSA',
          'PAYPAL-CERT-URL': 'https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270',
          [signature]: sign('sha256', Buffer.from(signed), privateKey(keys.private_key)).toString('base64'),
        },
      };
    },
    paired: true,
    makeSecret: (random) => {
      const pair = rsaPair();
      const webhook = random(9).toString('hex').toUpperCase().slice(0, 17);
      return {
        secret: JSON.stringify({ webhook_id: webhook, cert: publicPem(pair.publicKey) }),
        signingKey: JSON.stringify({ webhook_id: webhook, private_key: privateText(pair.privateKey) }),
      };
    },
    example: ({ id, nowMs }) => ({
      id: `WH-${id.slice(0, 17).toUpperCase()}`,
      create_time: isoTime(nowMs),
      event_type: 'PAYMENT.CAPTURE.COMPLETED',
      resource: { id: '42311647XV020574X', amount: { value: '30.00', currency_code: 'EUR' } },
    }),
  }),
  sender(theme, {
    id: 'aws_sns',
    secretForm: forms.pem,
    name: 'AWS SNS',
    headers: [],
    signatureHeader: null,
    signsBody: false,
    secret: {
      what: 'the signing certificate or its public key (PEM)',
      where: 'at the `SigningCertURL` of a message (on an sns.….amazonaws.com host)',
    },
    deliveryId: { fields: [['MessageId']] },
    steps: [
      "Start Headgate with `HEADGATE_CONFIRM_SUBSCRIPTIONS=sns`. Create the secret without a value, `CREATE SECRET aws_sns_secret WITH (backend = 'meta', learn = '1 day')`, and name the topics: `CREATE TABLE aws_sns_events (data JSONB) WITH (connector = 'webhook', sns_topics = 'arn:aws:sns:eu-west-1:123456789012:orders') VALIDATE SECRET aws_sns_secret USING aws_sns`.",
      'Create a subscription to the topic: protocol HTTPS, endpoint the URL of the table, raw message delivery off. Headgate fetches the certificate of the first message, checks the message, stores it, and confirms the subscription: the log contains `sns.confirmed`, or the reason why not.',
      "By hand, if Headgate must not call anybody: create the table with any certificate, and create the subscription. Its confirmation is refused and kept. Find out where the certificate is, `SELECT convert_from(body, 'UTF8')::jsonb->>'SigningCertURL' FROM headgate.rejected_requests WHERE table_name = 'aws_sns_events' ORDER BY id DESC LIMIT 1`, check that the host is `sns.<your region>.amazonaws.com`, fetch it, and `ALTER SECRET aws_sns_secret AS '-----BEGIN CERTIFICATE-----…'`. Then choose Request confirmation in the SNS console: it is now stored. Check that the host of `data->>'SubscribeURL'` is on amazonaws.com, too, and open it.",
    ],
    notes: [
      'The signature covers the fields Message, MessageId, Subject, SubscribeURL, Timestamp, Token, TopicArn and Type, with SHA-1 or, with SignatureVersion 2, SHA-256.',
      'AWS changes the certificate about once a year. With `HEADGATE_CONFIRM_SUBSCRIPTIONS=sns` and a secret that was created with `learn`, Headgate replaces it automatically; otherwise use `ALTER SECRET`.',
      'Any topic of any account in the region signs with the same certificate: with `sns_topics`, messages of other topics are refused; without it, compare `TopicArn` in your own VALIDATE.',
    ],
    contentType: 'text/plain; charset=UTF-8',
    expression: (s) =>
      `${snsTyped}\n  AND rsa_verify(${s},\n  convert_to(${snsSigned}, 'UTF8'),\n  decode(${body}->>'Signature', 'base64'),\n  ` +
      `CASE ${body}->>'SignatureVersion' WHEN '2' THEN 'sha256' ELSE 'sha1' END)`,
    sign: ({ body, signingKey }) => {
      const message = JSON.parse(body.toString()) as Record<string, unknown>;
      const hash = message['SignatureVersion'] === '2' ? 'sha256' : 'sha1';
      const signature = sign(hash, Buffer.from(snsText(message)), privateKey(signingKey)).toString('base64');
      return {
        headers: { 'x-amz-sns-message-type': String(message['Type']) },
        body: Buffer.from(JSON.stringify({ ...message, Signature: signature })),
      };
    },
    paired: true,
    makeSecret: () => {
      const pair = rsaPair();
      return { secret: publicPem(pair.publicKey), signingKey: privateText(pair.privateKey) };
    },
    example: ({ id, nowMs }) => ({
      Type: 'Notification',
      MessageId: uuid(id),
      TopicArn: 'arn:aws:sns:eu-west-1:123456789012:orders',
      Subject: 'Order ☕',
      Message: JSON.stringify({ order: numeric(id) }),
      Timestamp: isoTime(nowMs),
      SignatureVersion: '2',
      SigningCertURL:
        'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-7506a1e35b36ef5a444dd1a8e7cc3ed8.pem',
    }),
  }),
  sender(theme, {
    id: 'plaid',
    secretForm: forms.jwk,
    name: 'Plaid',
    toleranceS: 300,
    headers: ['Plaid-Verification'],
    secret: {
      what: 'the verification key as a JWK, or a JWK set `{"keys": [ … ]}`',
      where: 'the API’s `/webhook_verification_key/get`, with the `kid` of a delivery’s token',
    },
    steps: ['Pass the URL of the table as `webhook` when you create a link token or an item.'],
    notes: [
      'Plaid changes its keys: keep a JWK set with the old and the new one in the secret, and `ALTER SECRET` in time.',
    ],
    expression: (s) => {
      const claims = `jwt_verify(${header('Plaid-Verification')}, ${s})`;
      return (
        `secure_compare(${claims}->>'request_body_sha256', encode(sha256(payload), 'hex'))\n` +
        `  AND ${fresh(`${claims}->>'iat'`, 300)}`
      );
    },
    sign: ({ body, nowMs, signingKey }) => {
      const key = privateKey(signingKey);
      const claims = {
        iat: Math.floor(nowMs / 1000),
        request_body_sha256: createHash('sha256').update(body).digest('hex'),
      };
      return {
        headers: {
          'Plaid-Verification': token({ alg: 'ES256', kid: keyId(key), typ: 'JWT' }, claims, es256(key)),
        },
      };
    },
    paired: true,
    makeSecret: () => {
      const pair = p256Pair();
      const jwk = {
        ...pair.publicKey.export({ format: 'jwk' }),
        kid: keyId(pair.publicKey),
        alg: 'ES256',
        use: 'sig',
      };
      return { secret: JSON.stringify(jwk), signingKey: privateText(pair.privateKey) };
    },
    example: ({ id }) => ({
      webhook_type: 'TRANSACTIONS',
      webhook_code: 'SYNC_UPDATES_AVAILABLE',
      item_id: id,
      environment: 'production',
    }),
  }),
  sender(theme, {
    id: 'fusionauth',
    name: 'FusionAuth',
    headers: ['X-FusionAuth-Signature-JWT'],
    secret: {
      what: 'the signing key: the text of an HMAC key, or a public key in PEM',
      where: 'Settings → Key Master',
    },
    deliveryId: { fields: [['event', 'id']] },
    steps: [
      'Open Settings → Webhooks → Add with the URL of the table.',
      'Under Security, switch “Sign events” on and choose the key.',
    ],
    expression: (s) =>
      `secure_compare(jwt_verify(${header('X-FusionAuth-Signature-JWT')}, ${s})->>'request_body_sha256',\n  ` +
      `encode(sha256(payload), 'base64'))`,
    sign: ({ body, signingKey }) => {
      const claims = { request_body_sha256: createHash('sha256').update(body).digest('base64') };
      return {
        headers: {
          'X-FusionAuth-Signature-JWT': token({ alg: 'HS256', typ: 'JWT' }, claims, hs256(signingKey)),
        },
      };
    },
    example: ({ id, nowMs }) => ({
      event: { id: uuid(id), type: 'user.create', createInstant: nowMs, user: { email: 'zoe@example.com' } },
    }),
  }),
  sender(theme, {
    id: 'monday',
    name: 'monday.com',
    headers: ['Authorization'],
    signsBody: false,
    secret: { what: 'the app’s signing secret', where: 'Developer Center → the app → Basic information' },
    steps: ['Create the webhook from an app (integration) with the URL of the table.'],
    notes: ['Webhooks created on a board, without an app, carry no token and cannot be checked.'],
    expression: (s) => `jwt_verify(${header('Authorization')}, ${s}) IS NOT NULL`,
    sign: ({ nowMs, signingKey, url }) => {
      const claims = {
        aud: url,
        accountId: 12345678,
        iat: Math.floor(nowMs / 1000),
        exp: Math.floor(nowMs / 1000) + 300,
      };
      return { headers: { Authorization: token({ alg: 'HS256', typ: 'JWT' }, claims, hs256(signingKey)) } };
    },
    toleranceS: 300,
    example: ({ id, nowMs }) => ({
      event: { type: 'create_pulse', boardId: 1771812698, pulseId: numeric(id), triggerTime: isoTime(nowMs) },
    }),
  }),
  sender(theme, {
    id: 'atlassian_connect',
    name: 'Atlassian Connect apps',
    headers: ['Authorization'],
    signsBody: false,
    secret: {
      what: 'the shared secret of the installation',
      where: '`sharedSecret` of the app’s `installed` callback',
    },
    steps: ['Enter the URL of the table in the app’s descriptor (`modules.webhooks`).'],
    notes: [
      'The token’s `qsh` binds it to one URL; it is not compared, so a token for another URL of the same app is accepted.',
    ],
    expression: (s) => `jwt_verify(replace(${header('Authorization')}, 'JWT ', ''), ${s}) IS NOT NULL`,
    sign: ({ nowMs, signingKey, method, url }) => {
      const qsh = createHash('sha256')
        .update(`${method}&${new URL(url).pathname}&`)
        .digest('hex');
      const issued = Math.floor(nowMs / 1000);
      const claims = { iss: 'b0e3a1f2-client-key', iat: issued, exp: issued + 180, qsh };
      return {
        headers: { Authorization: `JWT ${token({ alg: 'HS256', typ: 'JWT' }, claims, hs256(signingKey))}` },
      };
    },
    toleranceS: 180,
    makeSecret: (random) => same(random(48).toString('base64url')),
    example: ({ id, nowMs }) => ({
      timestamp: nowMs,
      webhookEvent: 'jira:issue_created',
      issue: { id: String(numeric(id)), key: 'SHOP-43' },
    }),
  }),
];

/** Identifies a key pair: the same for its private and its public part. */
function keyId(key: ReturnType<typeof privateKey>): string {
  const spki = (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'der', type: 'spki' });
  return uuid(createHash('sha256').update(spki).digest('hex'));
}
