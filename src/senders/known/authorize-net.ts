/** Authorize.Net. */
import { report, unverified } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { same, sender, type Sender } from '../sender.ts';
import { isoTime, mac, numeric, uuid } from '../signing.ts';
import { forms } from '../secret-forms.ts';

export const authorizeNet: Sender = sender('A signature of the body', {
  id: 'authorize_net',
  aliases: ['authorizenet'],
  name: 'Authorize.Net',
  headers: ['X-ANET-Signature'],
  expression: (s) =>
    [`decode(${s}, 'hex')`, s]
      .map(
        (key) =>
          `secure_compare(lower(${header('X-ANET-Signature')}), 'sha512=' || ${hmac(key, 'payload', 'sha512', 'hex')})`,
      )
      .join('\n  OR '),
  sign: ({ body, signingKey }) => ({
    headers: {
      'X-ANET-Signature': `sha512=${mac('sha512', Buffer.from(signingKey, 'hex'), 'hex', body).toUpperCase()}`,
    },
  }),
  secretForm: forms.hex,
  makeSecret: (random) => same(random(64).toString('hex').toUpperCase()),
  secret: { what: 'the signature key, 128 hexadecimal digits', where: 'Account → API Credentials & Keys' },
  delivery: unverified({ fields: [['notificationId']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Account → Webhooks → Add Endpoint with the URL of the table, and choose the events.'],
  notes: [
    'Public receivers disagree whether the key is the hexadecimal text or its bytes: either is accepted.',
  ],
  example: ({ id, nowMs }) => ({
    notificationId: uuid(id),
    eventType: 'net.authorize.payment.authcapture.created',
    eventDate: isoTime(nowMs),
    webhookId: uuid(id),
    payload: { id: String(numeric(id)), authAmount: 19.99 },
  }),
});
