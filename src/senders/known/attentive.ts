/** Attentive. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const attentive: Sender = hmacBody({
  id: 'attentive',
  name: 'Attentive',
  headers: ['x-attentive-hmac-sha256'],
  secret: { what: 'the signing key', where: 'the webhook’s settings' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Marketplace → the app → Webhooks, with the URL of the table and the events.'],
  example: ({ id, nowMs }) => ({
    type: 'sms.subscribed',
    timestamp: nowMs,
    company: { display_name: 'Café', company_id: id.slice(0, 8) },
    subscriber: { phone: '+14155550100' },
  }),
});
