/** eBay. */
import { code, ran, unverified } from '../evidence.ts';
import { createHash, createPublicKey, sign } from 'node:crypto';
import { header } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime, p256Pair, privateKey, privateText, uuid } from '../signing.ts';

const ebaySignature = `convert_from(decode(${header('X-EBAY-SIGNATURE')}, 'base64'), 'UTF8')::jsonb->>'signature'`;

export const ebay: Sender = sender('A public key', {
  id: 'ebay',
  name: 'eBay (notifications)',
  secretForm: forms.ecKey,
  headers: ['X-EBAY-SIGNATURE'],
  secret: {
    what: 'the public key in base64: the text between the BEGIN and END lines of `key`',
    where: 'the API’s `getPublicKey`, with the `kid` of a delivery’s signature',
  },
  delivery: unverified({ fields: [['notification', 'notificationId']] }),
  evidence: {
    signature: code('eBay/event-notification-nodejs-sdk, lib/validator.js'),
    handshake: ran('event-notification-nodejs-sdk'),
  },
  steps: [
    'Create the table with any key for now. In the developer account open Alerts & Notifications, and enter the URL of the table and the verification token.',
    "Send a test notification. It is refused and kept: `SELECT convert_from(decode(headers->>'x-ebay-signature', 'base64'), 'UTF8')::json->>'kid' FROM headgate.rejected_requests WHERE table_name = 'ebay_events' ORDER BY id DESC LIMIT 1`. Ask `getPublicKey` for that key, and `ALTER SECRET`.",
  ],
  notes: [
    'The header is base64 of JSON with the signature (ECDSA, SHA-1) and the key’s id. Headgate does not fetch keys: if eBay changes its key, use `ALTER SECRET`.',
  ],
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
});
