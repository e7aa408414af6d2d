/** Mailgun. */
import { field, fresh, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { mac, seconds } from '../signing.ts';

export const mailgun: Sender = sender('A signature of the URL or of fields', {
  id: 'mailgun',
  name: 'Mailgun',
  toleranceS: 900,
  headers: [],
  signatureHeader: null,
  signsBody: false,
  secret: { what: 'the HTTP webhook signing key', where: 'Account settings → API security' },
  deliveryId: { fields: [['signature', 'token']] },
  steps: ['Open Send → Sending → Webhooks, choose the domain and the event, and enter the URL of the table.'],
  notes: [
    'Only a timestamp and a token in the body are signed, not the event: anyone who has seen one request can send others for 15 minutes.',
  ],
  expression: (s) =>
    `${fresh(field('signature,timestamp'), 900)}\n  AND secure_compare(${field('signature,signature')},\n    ` +
    `${hmac(s, utf8(`(${field('signature,timestamp')}) || (${field('signature,token')})`), 'sha256', 'hex')})`,
  sign: ({ body, nowMs, signingKey, id }) => {
    const parsed = JSON.parse(body.toString()) as object;
    const [timestamp, token] = [seconds(nowMs), `${id}${id.slice(0, 18)}`];
    const signature = { timestamp, token, signature: mac('sha256', signingKey, 'hex', timestamp, token) };
    return { headers: {}, body: Buffer.from(JSON.stringify({ ...parsed, signature })) };
  },
  example: ({ id, nowMs }) => ({
    'event-data': { event: 'delivered', id, timestamp: nowMs / 1000, recipient: 'zoe@example.com' },
  }),
});
