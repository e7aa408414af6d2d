/** Xendit. */
import { report, unverified } from '../evidence.ts';
import { tokenHeader } from '../token-forms.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const xendit: Sender = tokenHeader('plain', {
  id: 'xendit',
  name: 'Xendit',
  headers: ['x-callback-token'],
  secret: { what: 'the webhook verification token', where: 'Settings → Webhooks' },
  delivery: unverified({ header: 'webhook-id' }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Webhooks and enter the URL of the table for each product.'],
  eventHeaders: ({ id }) => ({ 'webhook-id': uuid(id) }),
  example: ({ id, nowMs }) => ({
    event: 'payment.succeeded',
    business_id: id.slice(0, 24),
    created: isoTime(nowMs),
    data: { id: `py-${uuid(id)}`, amount: 15000, currency: 'IDR' },
  }),
});
