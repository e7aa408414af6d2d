/** RevenueCat. */
import { code, known, page } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const revenuecat: Sender = tokenHeader('plain', {
  id: 'revenuecat',
  name: 'RevenueCat',
  headers: ['Authorization'],
  secret: chosen('the value of the authorization header'),
  delivery: known(
    { fields: [['event', 'id']] },
    code('RevenueCat/docs bf39a9c, docs/integrations/webhooks.md'),
  ),
  evidence: {
    event: page('RevenueCat/docs, “Webhooks”', 'February 2026'),
    signature: code('RevenueCat/docs bf39a9c, docs/integrations/webhooks.md'),
  },
  retries: {
    when: 'five times, 5, 10, 20, 40 and 80 minutes later',
    afterS: [300, 600, 1200, 2400, 4800],
    signed: 'unsaid',
    from: code('RevenueCat/docs bf39a9c, docs/integrations/webhooks.md'),
  },
  answer: {
    what: '200 within 60 seconds',
    from: code('RevenueCat/docs bf39a9c, docs/integrations/webhooks.md'),
  },
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
