/** Zendesk. */
import { known, page, ran } from '../evidence.ts';
import { freshIso, header, hmac, utf8 } from '../expressions.ts';
import { type Sender, sender } from '../sender.ts';
import { isoSeconds, mac, numeric, uuid } from '../signing.ts';

const zendeskTime = 'X-Zendesk-Webhook-Signature-Timestamp';

export const zendesk: Sender = sender('A signature of the body and a timestamp', {
  id: 'zendesk',
  name: 'Zendesk',
  toleranceS: 300,
  headers: ['X-Zendesk-Webhook-Signature', zendeskTime],
  secret: {
    what: 'the webhook’s signing secret',
    where: 'Apps and integrations → Webhooks → the webhook → Reveal secret',
  },
  delivery: known(
    { header: 'X-Zendesk-Webhook-Invocation-Id' },
    page('developer.zendesk.com/api-reference/webhooks', 'November 2026'),
  ),
  evidence: {
    signature: [
      ran('@trigger.dev/core'),
      page('developer.zendesk.com/api-reference/webhooks', 'November 2026'),
    ],
  },
  steps: [
    'In the Admin Center open Apps and integrations → Webhooks → Create webhook.',
    'Endpoint URL: the URL of the table, method POST, format JSON. Save and reveal the signing secret.',
  ],
  notes: [
    'The signature covers the timestamp and then the body, according to Zendesk’s current pages; an older page had them in reverse order.',
  ],
  expression: (s) =>
    `${freshIso(header(zendeskTime), 300)}\n  AND secure_compare(${header('X-Zendesk-Webhook-Signature')},\n    ` +
    `${hmac(s, `${utf8(header(zendeskTime))} || payload`, 'sha256', 'base64')})`,
  sign: ({ body, nowMs, signingKey }) => ({
    headers: {
      [zendeskTime]: isoSeconds(nowMs),
      'X-Zendesk-Webhook-Signature': mac('sha256', signingKey, 'base64', isoSeconds(nowMs), body),
    },
  }),
  eventHeaders: ({ id }) => ({ 'X-Zendesk-Webhook-Invocation-Id': id }),
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    type: 'zen:event-type:ticket.created',
    time: isoSeconds(nowMs),
    detail: { id: String(numeric(id)), subject: 'Où est ma commande ?', status: 'NEW' },
  }),
});
