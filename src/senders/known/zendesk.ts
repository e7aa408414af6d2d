/** Zendesk. */
import { known, page, ran, report, unfound } from '../evidence.ts';
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
  retries: {
    when: 'up to three times after a 409, after a 429 or 503 with a short `Retry-After`, and up to five times where no answer comes',
    signed: 'unsaid',
    from: report('withastro/flue, its page of Zendesk, November 2026'),
  },
  answer: {
    what: 'a 2xx within 10 seconds; a 500 is final',
    from: [
      report('alboz.eu, “Master webhooks to ensure stability”, October 2025'),
      report('withastro/flue, its page of Zendesk, November 2026'),
    ],
  },
  evidence: {
    signature: [
      ran('@trigger.dev/core'),
      page('developer.zendesk.com/api-reference/webhooks', 'November 2026'),
    ],
    secret: ran('@trigger.dev/core'),
    rotation: page(
      'developer.zendesk.com/api-reference/webhooks/introduction: the API resets the secret',
      'November 2026',
    ),
    event: unfound(),
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
