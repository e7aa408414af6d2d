/** Recharge. */
import { report } from '../evidence.ts';
import { header, utf8 } from '../expressions.ts';
import { sender, type Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';
import { createHash } from 'node:crypto';

export const recharge: Sender = sender('A signature of the body', {
  id: 'recharge',
  name: 'Recharge',
  headers: ['X-Recharge-Hmac-Sha256'],
  expression: (s) =>
    `secure_compare(${header('X-Recharge-Hmac-Sha256')}, encode(sha256(${utf8(s)} || payload), 'hex'))`,
  sign: ({ body, signingKey }) => ({
    headers: {
      'X-Recharge-Hmac-Sha256': createHash('sha256').update(signingKey).update(body).digest('hex'),
    },
  }),
  secret: { what: 'the API client secret', where: 'Tools & apps → API tokens → the token' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'Create webhooks through the API: `POST /webhooks` with `address`, the URL of the table, and `topic`.',
  ],
  notes: [
    'In spite of its name the signature is a plain SHA-256 of the secret and the body.',
    'Recharge also sends `X-Recharge-Webhook-Signature`, with a time, which this check does not read.',
  ],
  eventHeaders: () => ({ 'X-Recharge-Topic': 'order/processed' }),
  example: ({ id, nowMs }) => ({
    order: {
      id: numeric(id),
      status: 'success',
      processed_at: isoTime(nowMs),
      customer: { email: 'zoe@example.com' },
    },
  }),
});
