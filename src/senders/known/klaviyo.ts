/** Klaviyo. */
import { page, unverified } from '../evidence.ts';
import { header, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime, mac } from '../signing.ts';

export const klaviyo: Sender = sender('A signature of the body', {
  id: 'klaviyo',
  name: 'Klaviyo (system webhooks)',
  headers: ['Klaviyo-Signature', 'Klaviyo-Timestamp'],
  secret: { what: 'the webhook’s secret key', where: 'you choose it when the webhook is created' },
  delivery: unverified({ ofEach: 'external_id' }),
  events: { what: 'event', at: ['data'] },
  evidence: { signature: page('developers.klaviyo.com, “Working with system webhooks”', 'November 2026') },
  steps: [
    'Open Integrations → Webhooks → Create webhook, or `POST /api/webhooks`, with the URL of the table, the topics and a secret key.',
  ],
  notes: [
    'The timestamp is signed, but in the form `Tue, 14 Apr 2026 03:50:12 GMT`, which an expression cannot parse: an old request is accepted again.',
  ],
  expression: (s) =>
    `secure_compare(${header('Klaviyo-Signature')},\n  ${hmac(s, `payload || ${utf8(header('Klaviyo-Timestamp'))}`, 'sha256', 'hex')})`,
  sign: ({ body, nowMs, signingKey }) => {
    const time = new Date(nowMs).toUTCString();
    return {
      headers: {
        'Klaviyo-Timestamp': time,
        'Klaviyo-Signature': mac('sha256', signingKey, 'hex', body, time),
      },
    };
  },
  eventHeaders: ({ id }) => ({ 'Klaviyo-Webhook-Id': id }),
  example: ({ id, nowMs }) => ({
    data: [
      {
        topic: 'event:klaviyo.sent_sms',
        external_id: id,
        payload: { data: { type: 'event', id: id.slice(0, 11) } },
      },
    ],
    meta: { klaviyo_account_id: 'ABC123', klaviyo_webhook_id: id, timestamp: isoTime(nowMs) },
  }),
});
