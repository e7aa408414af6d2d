/** Adobe I/O Events. */
import { known, page } from '../evidence.ts';
import { sign } from 'node:crypto';
import { body, header } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime, privateKey, privateText, publicPem, rsaPair, uuid } from '../signing.ts';

/** Adobe signs with two keys, so that one of them can be changed. */
const adobeSignature = (n: 1 | 2) => `X-Adobe-Digital-Signature-${n}`;

const adobePart = (s: string, n: 1 | 2) =>
  `rsa_verify(${s}::jsonb->>'key${n}', payload, decode(${header(adobeSignature(n))}, 'base64'), 'sha256')`;

export const adobeIo: Sender = sender('A public key', {
  id: 'adobe_io',
  name: 'Adobe I/O Events',
  secretForm: forms.adobe,
  headers: [adobeSignature(1), adobeSignature(2)],
  secret: {
    what: 'JSON that contains the client id and one or both public keys (PEM): `{"client_id": "…", "key1": "-----BEGIN PUBLIC KEY-----\\n…", "key2": "…"}`',
    where:
      'the client id in the Developer Console; the keys at `https://static.adobeioevents.com` with the paths in X-Adobe-Public-Key1-Path and X-Adobe-Public-Key2-Path of a delivery',
  },
  delivery: known(
    { header: 'X-Adobe-Event-Id' },
    page('AdobeDocs/adobe-io-events, “Webhooks FAQ” and its retry policy', 'June 2026'),
  ),
  retries: {
    when: 'for 24 hours after a 429 or a 5xx: after a minute, then at most every 15',
    signed: 'unsaid',
    from: page('AdobeDocs/adobe-io-events, “Webhooks FAQ” and its retry policy', 'June 2026'),
  },
  evidence: {
    signature: page('AdobeDocs/adobe-io-events, “Introduction to Webhooks”', 'June 2026'),
    handshake: page('AdobeDocs/adobe-io-events, “Introduction to Webhooks”', 'June 2026'),
    rotation: page('AdobeDocs/adobe-io-events, “Introduction to Webhooks”', 'June 2026'),
  },
  steps: [
    'In the Developer Console open the project → Add event, and enter the URL of the table as the webhook; deliver one at a time.',
  ],
  notes: [
    'Adobe signs for all its customers with the same keys: `recipient_client_id` in the signed body names the recipient of the event, and is compared.',
    'Adobe occasionally changes its keys, one at a time: then use `ALTER SECRET`. Batches are not signed in this way.',
  ],
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
});
