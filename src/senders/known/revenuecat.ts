/** RevenueCat. */
import { known, page } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const revenuecat: Sender = tokenHeader('plain', {
  id: 'revenuecat',
  name: 'RevenueCat',
  headers: ['Authorization'],
  secret: chosen('the value of the authorization header'),
  delivery: known({ fields: [['event', 'id']] }, page('RevenueCat/docs, “Webhooks”', 'February 2026')),
  evidence: { event: page('RevenueCat/docs, “Webhooks”', 'February 2026') },
  steps: [
    'Open the project → Integrations → Webhooks → Add with the URL of the table and the text of the secret as the authorization header.',
  ],
  example: ({ id, nowMs }) => ({
    api_version: '1.0',
    event: {
      id: uuid(id),
      type: 'INITIAL_PURCHASE',
      event_timestamp_ms: nowMs,
      app_user_id: 'zoe',
      product_id: 'pro_monthly',
    },
  }),
});
