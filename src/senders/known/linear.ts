/** Linear. */
import { body, freshMs, header, hmac } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { mac, uuid } from '../signing.ts';

export const linear: Sender = sender('A signature of the body and a timestamp', {
  id: 'linear',
  name: 'Linear',
  toleranceS: 60,
  headers: ['Linear-Signature'],
  secret: { what: 'the webhook’s signing secret', where: 'Settings → API → Webhooks → the webhook' },
  deliveryId: { header: 'Linear-Delivery' },
  steps: [
    'Open Settings → API → Webhooks → New webhook.',
    'URL: the URL of the table. Choose the data and create it; copy the signing secret.',
  ],
  notes: [
    'The time is `webhookTimestamp` in the body: your own body for `headgate send` needs a current one.',
  ],
  expression: (s) =>
    `secure_compare(${header('Linear-Signature')}, ${hmac(s, 'payload', 'sha256', 'hex')})\n` +
    `  AND ${freshMs(`${body}->>'webhookTimestamp'`, 60)}`,
  sign: ({ body, signingKey }) => ({
    headers: { 'Linear-Signature': mac('sha256', signingKey, 'hex', body) },
  }),
  eventHeaders: ({ id }) => ({ 'Linear-Event': 'Issue', 'Linear-Delivery': uuid(id) }),
  example: ({ id, nowMs }) => ({
    action: 'update',
    type: 'Issue',
    data: { id: uuid(id), title: 'The café page is slow' },
    webhookTimestamp: nowMs,
  }),
});
