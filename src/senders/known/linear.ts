/** Linear. */
import { known, ran, report, unfound } from '../evidence.ts';
import { body, freshMs, header, hmac } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { mac, uuid } from '../signing.ts';

export const linear: Sender = sender('A signature of the body and a timestamp', {
  id: 'linear',
  name: 'Linear',
  toleranceS: 28800,
  headers: ['Linear-Signature'],
  secret: { what: 'the webhook’s signing secret', where: 'Settings → API → Webhooks → the webhook' },
  // Each attempt has the same bytes, and the milliseconds of the event are among them.
  delivery: known(
    { header: 'Linear-Signature' },
    report('vercel/eve 1570: each attempt has the same bytes, and so the same signature'),
    'Nobody has verified that `Linear-Delivery` is one per event.',
  ),
  retries: {
    when: 'after a minute, an hour and 6 hours',
    afterS: [60, 3660, 25260],
    signed: 'as at first',
    lastS: 7 * 3_600 + 60,
    from: report('vercel/eve 1570'),
  },
  answer: {
    what: 'a 200 within 5 seconds',
    from: report('the skill “linear-webhooks-events” of jeremylongshore, 2026'),
  },
  evidence: {
    signature: ran('@linear/sdk'),
    event: report('several public receivers, read in November 2026'),
    rotation: unfound(),
  },
  steps: [
    'Open Settings → API → Webhooks → New webhook.',
    'URL: the URL of the table. Choose the data and create it; copy the signing secret.',
  ],
  notes: [
    'The time is `webhookTimestamp` in the body: your own body for `headgate send` needs a current one.',
  ],
  expression: (s) =>
    `secure_compare(${header('Linear-Signature')}, ${hmac(s, 'payload', 'sha256', 'hex')})\n` +
    `  AND ${freshMs(`${body}->>'webhookTimestamp'`, 28800)}`,
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
