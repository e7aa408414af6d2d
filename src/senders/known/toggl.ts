/** Toggl Track. */
import { page, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const toggl: Sender = hmacBody({
  id: 'toggl',
  name: 'Toggl Track',
  prefix: 'sha256=',
  headers: ['X-Webhook-Signature-256'],
  secret: { what: 'the subscription’s secret', where: 'you choose it, or the API creates it' },
  delivery: unverified({ fields: [['event_id']] }),
  evidence: {
    signature: page('toggl_api_docs, webhooks.md', 'November 2022'),
    handshake: page('toggl_api_docs, webhooks.md', 'November 2022'),
  },
  steps: [
    'Open the workspace’s Integrations → Webhooks → Create webhook with the URL of the table, the events and the secret.',
  ],
  example: ({ id, nowMs }) => ({
    event_id: numeric(id),
    created_at: isoTime(nowMs),
    subscription_id: 1,
    payload: { id: numeric(id), description: 'Café', duration: 1800 },
    metadata: { action: 'updated', model: 'time_entry' },
  }),
});
