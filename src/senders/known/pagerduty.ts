/** PagerDuty. */
import { code, known, page, ran, vector } from '../evidence.ts';
import { signatureList } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const pagerduty: Sender = signatureList({
  id: 'pagerduty',
  name: 'PagerDuty (webhooks v3)',
  headers: ['X-PagerDuty-Signature'],
  secret: { what: 'the subscription’s secret', where: 'shown once when the subscription is created' },
  delivery: known(
    { header: 'X-Webhook-Id' },
    page('developer.pagerduty.com, “Webhooks Overview”', 'August 2026'),
  ),
  retries: {
    when: 'for up to 48 hours after a timeout, a 429 or a 5xx',
    signed: 'unsaid',
    from: page('developer.pagerduty.com, “Webhooks Overview”', 'August 2026'),
  },
  answer: {
    what: 'a 2xx within 5 seconds',
    from: code('PagerDuty/developer-docs, docs/webhooks/02-Behavior.md'),
  },
  evidence: {
    signature: [
      ran('@trigger.dev/core'),
      vector('PagerDuty/go-pagerduty, webhookv3/webhookv3_test.go'),
      code('PagerDuty/developer-docs, docs/webhooks/04-Signatures.md'),
    ],
    secret: ran('@trigger.dev/core'),
    rotation: code('PagerDuty/developer-docs, docs/webhooks/04-Signatures.md'),
    event: page('developer.pagerduty.com, “Webhooks Overview”', 'August 2026'),
  },
  steps: [
    'Open Integrations → Generic Webhooks (v3) → New Webhook.',
    'Webhook URL: the URL of the table. Choose scope and events, add it, and copy the signing secret.',
  ],
  notes: ['While a secret is being changed, the header contains several signatures; any of them may match.'],
  eventHeaders: ({ id }) => ({ 'X-Webhook-Id': uuid(id) }),
  example: ({ id, nowMs }) => ({
    event: {
      id: id.toUpperCase(),
      event_type: 'incident.triggered',
      occurred_at: isoTime(nowMs),
      data: { id: 'PGR0VU2', type: 'incident', title: 'Disk full on café-1', urgency: 'high' },
    },
  }),
});
