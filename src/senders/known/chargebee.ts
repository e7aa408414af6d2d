/** Chargebee. */
import { report, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { basicSecret, tokenHeader } from '../token-forms.ts';

export const chargebee: Sender = tokenHeader('basic', {
  id: 'chargebee',
  name: 'Chargebee',
  headers: ['Authorization'],
  secret: basicSecret,
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Open Settings → Configure Chargebee → Webhooks → Add Webhook with the URL of the table.',
    'Switch “Protect webhook URL with basic authentication” on and enter user and password.',
  ],
  example: ({ id, nowMs }) => ({
    id: `ev_${id.slice(0, 20)}`,
    occurred_at: Math.floor(nowMs / 1000),
    event_type: 'subscription_created',
    content: { subscription: { id: 'cb_1', status: 'active' } },
  }),
});
