/** Telnyx. */
import { ran, unverified } from '../evidence.ts';
import { sign } from 'node:crypto';
import { fresh, header, utf8 } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { ed25519Pair, isoTime, privateKey, privateText, rawPublic, seconds, uuid } from '../signing.ts';

const telnyxTime = 'Telnyx-Timestamp';

const telnyxSignature = 'Telnyx-Signature-Ed25519';

export const telnyx: Sender = sender('A public key', {
  id: 'telnyx',
  name: 'Telnyx',
  secretForm: forms.ed25519Base64,
  toleranceS: 300,
  headers: [telnyxSignature, telnyxTime],
  secret: {
    what: 'the account’s public key, base64',
    where: 'Mission Control → Keys & Credentials → Public key',
  },
  delivery: unverified({ fields: [['data', 'id']] }),
  evidence: { signature: ran('telnyx') },
  steps: [
    'In Mission Control open the messaging profile or the voice application and enter the URL of the table as its webhook URL (API v2).',
  ],
  notes: ['In the signed text a `|` separates the timestamp and the body.'],
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
});
