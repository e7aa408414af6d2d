/** Senders that sign with a private key, of which Headgate stores the public part: Discord, messages, shops. */
import { createHash, createPublicKey, sign } from 'node:crypto';
import { body, fresh, header, utf8 } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Sender, type SenderSpec, sender } from './sender.ts';
import {
  ed25519Pair,
  es256,
  isoTime,
  numeric,
  p256Pair,
  privateKey,
  privateText,
  publicPem,
  rawPublic,
  rsaPair,
  seconds,
  token,
  uuid,
} from './signing.ts';

const theme = 'A public key';

/** Discord's two protocols use one signature scheme. */
function discord(spec: Omit<SenderSpec, 'headers' | 'secret'>): Sender {
  const [signature, time] = ['X-Signature-Ed25519', 'X-Signature-Timestamp'];
  return sender(theme, {
    secretForm: forms.ed25519,
    toleranceS: 300,
    headers: [signature, time],
    secret: {
      what: 'the application’s public key, 64 hexadecimal digits',
      where: 'Developer Portal → the app → General Information',
    },
    expression: (s) =>
      `${fresh(header(time), 300)}\n  AND ed25519_verify(decode(${s}, 'hex'), ` +
      `${utf8(header(time))} || payload,\n    decode(${header(signature)}, 'hex'))`,
    sign: ({ body, nowMs, signingKey }) => {
      const signed = Buffer.concat([Buffer.from(seconds(nowMs)), body]);
      return {
        headers: {
          [time]: seconds(nowMs),
          [signature]: sign(null, signed, privateKey(signingKey)).toString('hex'),
        },
      };
    },
    paired: true,
    makeSecret: () => {
      const pair = ed25519Pair();
      return { secret: rawPublic(pair.publicKey).toString('hex'), signingKey: privateText(pair.privateKey) };
    },
    ...spec,
  });
}

/** Adobe signs with two keys, so that one of them can be changed. */
const adobeSignature = (n: 1 | 2) => `X-Adobe-Digital-Signature-${n}`;
const adobePart = (s: string, n: 1 | 2) =>
  `rsa_verify(${s}::jsonb->>'key${n}', payload, decode(${header(adobeSignature(n))}, 'base64'), 'sha256')`;

const telnyxTime = 'Telnyx-Timestamp';
const telnyxSignature = 'Telnyx-Signature-Ed25519';
const ebaySignature = `convert_from(decode(${header('X-EBAY-SIGNATURE')}, 'base64'), 'UTF8')::jsonb->>'signature'`;

export const asymmetricServiceSenders: readonly Sender[] = [
  discord({
    id: 'discord',
    name: 'Discord (webhook events)',
    steps: [
      'In the Developer Portal open the app → Webhooks and enter the URL of the table as the endpoint.',
      'Switch the events on, choose them and save.',
    ],
    notes: [
      'Discord has two protocols with the same signature. This one is for webhook events, where `"type": 1` is an event; `USING discord_interactions` is for slash commands and buttons.',
    ],
    example: ({ id, nowMs }) => ({
      version: 1,
      application_id: String(numeric(id)),
      type: 1,
      event: { type: 'ENTITLEMENT_CREATE', timestamp: isoTime(nowMs), data: { id: String(numeric(id)) } },
    }),
  }),
  discord({
    id: 'discord_interactions',
    name: 'Discord (interactions)',
    deliveryId: { fields: [['id']] },
    steps: [
      'In the Developer Portal open the app → General Information and enter the URL of the table as the interactions endpoint URL.',
    ],
    notes: [
      'A stored interaction is answered with `{"type":5}`: Discord shows that the app is thinking, and the application that reads the table has 15 minutes to follow up through the API with the interaction’s `token`. For components and modals that need another answer, define it (`ALTER TABLE … ANSWER …`).',
      'An interaction’s `token` is stored in the table: anyone who may read it can answer in the app’s name for 15 minutes.',
    ],
    source:
      'Discord’s documentation of interactions; the signature was tested against the package discord-interactions',
    example: ({ id }) => ({
      id: String(numeric(id)),
      application_id: '1234560123453231555',
      type: 2,
      token: id,
      version: 1,
      data: { id: '771825006014889984', name: 'order', type: 1 },
    }),
  }),
  sender(theme, {
    id: 'telnyx',
    name: 'Telnyx',
    secretForm: forms.ed25519Base64,
    toleranceS: 300,
    headers: [telnyxSignature, telnyxTime],
    secret: {
      what: 'the account’s public key, base64',
      where: 'Mission Control → Keys & Credentials → Public key',
    },
    deliveryId: { fields: [['data', 'id']] },
    steps: [
      'In Mission Control open the messaging profile or the voice application and enter the URL of the table as its webhook URL (API v2).',
    ],
    notes: ['In the signed text a `|` separates the timestamp and the body.'],
    source: 'public receivers of Telnyx’s webhooks (API v2)',
    expression: (s) =>
      `${fresh(header(telnyxTime), 300)}\n  AND ed25519_verify(decode(${s}, 'base64'), ` +
      `${utf8(`(${header(telnyxTime)}) || '|'`)} || payload,\n    decode(${header(telnyxSignature)}, 'base64'))`,
    sign: ({ body, nowMs, signingKey }) => {
      const signed = Buffer.concat([Buffer.from(`${seconds(nowMs)}|`), body]);
      return {
        headers: {
          [telnyxTime]: seconds(nowMs),
          [telnyxSignature]: sign(null, signed, privateKey(signingKey)).toString('base64'),
        },
      };
    },
    paired: true,
    makeSecret: () => {
      const pair = ed25519Pair();
      return {
        secret: rawPublic(pair.publicKey).toString('base64'),
        signingKey: privateText(pair.privateKey),
      };
    },
    example: ({ id, nowMs }) => ({
      data: {
        event_type: 'message.received',
        id: uuid(id),
        occurred_at: isoTime(nowMs),
        payload: { direction: 'inbound', text: 'Grüße', from: { phone_number: '+14155550100' } },
        record_type: 'event',
      },
      meta: { attempt: 1, delivered_to: 'https://hooks.example.com/' },
    }),
  }),
  sender(theme, {
    id: 'ebay',
    name: 'eBay (notifications)',
    secretForm: forms.ecKey,
    headers: ['X-EBAY-SIGNATURE'],
    secret: {
      what: 'the public key in base64: the text between the BEGIN and END lines of `key`',
      where: 'the API’s `getPublicKey`, with the `kid` of a delivery’s signature',
    },
    deliveryId: { fields: [['notification', 'notificationId']] },
    steps: [
      'Create the table with any key for now. In the developer account open Alerts & Notifications, and enter the URL of the table and the verification token.',
      "Send a test notification. It is refused and kept: `SELECT convert_from(decode(headers->>'x-ebay-signature', 'base64'), 'UTF8')::json->>'kid' FROM headgate.rejected_requests WHERE table_name = 'ebay_events' ORDER BY id DESC LIMIT 1`. Ask `getPublicKey` for that key, and `ALTER SECRET`.",
    ],
    notes: [
      'The header is base64 of JSON with the signature (ECDSA, SHA-1) and the key’s id. Headgate does not fetch keys: if eBay changes its key, use `ALTER SECRET`.',
    ],
    source: 'eBay’s own Node package for notifications',
    expression: (s) =>
      `ecdsa_verify(decode(${s}, 'base64'), payload,\n  decode(${ebaySignature}, 'base64'), 'sha1')`,
    sign: ({ body, signingKey }) => {
      const key = privateKey(signingKey);
      const signature = sign('sha1', body, key).toString('base64');
      const kid = uuid(
        createHash('sha256')
          .update(createPublicKey(key).export({ format: 'der', type: 'spki' }))
          .digest('hex'),
      );
      const envelope = JSON.stringify({ alg: 'ecdsa', kid, signature, digest: 'SHA1' });
      return { headers: { 'X-EBAY-SIGNATURE': Buffer.from(envelope).toString('base64') } };
    },
    paired: true,
    makeSecret: () => {
      const pair = p256Pair();
      return {
        secret: pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
        signingKey: privateText(pair.privateKey),
      };
    },
    example: ({ id, nowMs }) => ({
      metadata: { topic: 'MARKETPLACE_ACCOUNT_DELETION', schemaVersion: '1.0', deprecated: false },
      notification: {
        notificationId: uuid(id),
        eventDate: isoTime(nowMs),
        publishAttemptCount: 1,
        data: { username: 'zoe', userId: 'ma8vp1jySJC', eiasToken: id },
      },
    }),
  }),
  sender(theme, {
    id: 'adobe_io',
    name: 'Adobe I/O Events',
    secretForm: forms.adobe,
    headers: [adobeSignature(1), adobeSignature(2)],
    secret: {
      what: 'JSON that contains the client id and one or both public keys (PEM): `{"client_id": "…", "key1": "-----BEGIN PUBLIC KEY-----\\n…", "key2": "…"}`',
      where:
        'the client id in the Developer Console; the keys at `https://static.adobeioevents.com` with the paths in X-Adobe-Public-Key1-Path and X-Adobe-Public-Key2-Path of a delivery',
    },
    deliveryId: { header: 'X-Adobe-Event-Id' },
    steps: [
      'In the Developer Console open the project → Add event, and enter the URL of the table as the webhook; deliver one at a time.',
    ],
    notes: [
      'Adobe signs for all its customers with the same keys: `recipient_client_id` in the signed body names the recipient of the event, and is compared.',
      'Adobe occasionally changes its keys, one at a time: then use `ALTER SECRET`. Batches are not signed in this way.',
    ],
    source: 'Adobe’s guide to I/O Events and its own Java package',
    expression: (s) =>
      `secure_compare(${body}->>'recipient_client_id', ${s}::jsonb->>'client_id')\n` +
      `  AND (${adobePart(s, 1)}\n    OR ${adobePart(s, 2)})`,
    sign: ({ body, signingKey }) => {
      const keys = JSON.parse(signingKey) as { client_id: string; private_key: string };
      const event = JSON.parse(body.toString()) as object;
      const sent = Buffer.from(JSON.stringify({ ...event, recipient_client_id: keys.client_id }));
      const signature = sign('sha256', sent, privateKey(keys.private_key)).toString('base64');
      return {
        headers: {
          [adobeSignature(1)]: signature,
          'X-Adobe-Public-Key1-Path': '/prod/keys/pub-key-Ptc2pD9vT9.pem',
        },
        body: sent,
      };
    },
    paired: true,
    makeSecret: (random) => {
      const pair = rsaPair();
      const client = random(16).toString('hex');
      return {
        secret: JSON.stringify({ client_id: client, key1: publicPem(pair.publicKey) }),
        signingKey: JSON.stringify({ client_id: client, private_key: privateText(pair.privateKey) }),
      };
    },
    eventHeaders: ({ id }) => ({
      'X-Adobe-Event-Id': uuid(id),
      'X-Adobe-Event-Code': 'aem.sites.contentFragment.modified',
    }),
    contentType: 'application/cloudevents+json; charset=UTF-8',
    example: ({ id, nowMs }) => ({
      specversion: '1.0',
      id: uuid(id),
      type: 'aem.sites.contentFragment.modified',
      source: 'acct:aem@example.com',
      time: isoTime(nowMs),
      data: { path: '/content/dam/café' },
    }),
  }),
  sender(theme, {
    id: 'app_store',
    name: 'App Store Server Notifications (version 2)',
    secretForm: forms.ecPem,
    headers: [],
    signatureHeader: null,
    signsBody: false,
    secret: {
      what: 'Apple’s signing certificate (PEM): the first of `x5c` in the header of `signedPayload`',
      where: 'in a notification; compare its issuer with Apple’s certificate authority before you trust it',
    },
    steps: [
      'In App Store Connect open the app → App Information → App Store Server Notifications, and enter the URL of the table for production or the sandbox, version 2.',
    ],
    notes: [
      'Apple signs for all apps with the same certificate: compare `bundleId`, in the `data` of the signed content, before you rely on a notification.',
      'The body is one signed token; the check verifies its signature with the certificate in the secret, and does not follow the chain that the token names. Apple changes the certificate about every two years: then use `ALTER SECRET`.',
      "Its content is in the middle part: `convert_from(decode(rpad(translate(split_part(data->>'signedPayload', '.', 2), '-_', '+/'), (length(split_part(data->>'signedPayload', '.', 2)) + 3) / 4 * 4, '='), 'base64'), 'UTF8')::jsonb`; `notificationUUID` there identifies a repeated notification.",
    ],
    source: 'general knowledge of Apple’s page “App Store Server Notifications V2”',
    // What devices hold about a purchase is signed by Apple, too, but has no type of notification.
    expression: (s) => `jwt_verify(${body}->>'signedPayload', ${s})->>'notificationType' IS NOT NULL`,
    sign: ({ body, signingKey, nowMs }) => {
      const key = privateKey(signingKey);
      const claims = JSON.parse(body.toString()) as object;
      const signedPayload = token({ alg: 'ES256', x5c: [] }, { ...claims, signedDate: nowMs }, es256(key));
      return { headers: {}, body: Buffer.from(JSON.stringify({ signedPayload })) };
    },
    paired: true,
    makeSecret: () => {
      const pair = p256Pair();
      return { secret: publicPem(pair.publicKey), signingKey: privateText(pair.privateKey) };
    },
    example: ({ id }) => ({
      notificationType: 'DID_RENEW',
      notificationUUID: uuid(id),
      version: '2.0',
      data: { bundleId: 'com.example.cafe', environment: 'Production' },
    }),
  }),
];
