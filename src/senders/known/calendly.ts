/** Calendly. */
import { none, page, ran } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const calendly: Sender = timestampedList({
  id: 'calendly',
  name: 'Calendly',
  time: 't',
  version: 'v1',
  toleranceS: 180,
  headers: ['Calendly-Webhook-Signature'],
  secret: { what: 'the signing key', where: 'you choose it when you create the subscription' },
  retries: {
    when: 'for 24 hours, more and more rarely',
    signed: 'unsaid',
    lastS: 24 * 3_600,
    from: page('developer.calendly.com, “Webhook errors” and “Webhook timeouts”', 'November 2026'),
  },
  answer: {
    what: 'a 2xx within 15 seconds; 410 ends the subscription',
    from: page('developer.calendly.com, “Webhook errors” and “Webhook timeouts”', 'November 2026'),
  },
  evidence: {
    signature: [
      ran('@trigger.dev/core'),
      page('developer.calendly.com, “Webhook signatures”', 'November 2026'),
    ],
    event: page('developer.calendly.com/docs/webhooks/overview', 'November 2026'),
    secret: page('developer.calendly.com/docs/webhooks/overview', 'November 2026'),
    rotation: page(
      'developer.calendly.com/docs/webhooks/overview: the key is only set when a subscription is made',
      'November 2026',
    ),
  },
  delivery: none(
    'Calendly sends no id of an event: its body has event, created_at, created_by and payload',
    page('developer.calendly.com/docs/webhooks/overview', 'November 2026'),
    'One with the same event, created_at and payload.uri is most likely the same.',
  ),
  steps: [
    'Create subscriptions through the API: `POST /webhook_subscriptions` with the URL of the table and `signing_key`.',
  ],
  example: ({ id, nowMs }) => ({
    event: 'invitee.created',
    created_at: isoTime(nowMs),
    payload: { uri: `https://api.calendly.com/invitees/${id}`, name: 'Zoë', email: 'zoe@example.com' },
  }),
});
