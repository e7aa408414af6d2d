/** Modern Treasury. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const modernTreasury: Sender = hmacBody({
  id: 'modern_treasury',
  name: 'Modern Treasury',
  headers: ['X-Signature'],
  secret: { what: 'the webhook key', where: 'Developers → Webhooks' },
  delivery: unverified({ header: 'X-Webhook-Id' }),
  evidence: { signature: ran('modern-treasury') },
  steps: ['Open Developers → Webhooks → Add endpoint with the URL of the table.'],
  eventHeaders: ({ id }) => ({
    'X-Topic': 'payment_order',
    'X-Webhook-Id': uuid(id),
    'X-Delivery-Id': uuid(id),
  }),
  example: ({ id, nowMs }) => ({
    event: 'completed',
    data: { id: uuid(id), object: 'payment_order', updated_at: isoTime(nowMs) },
  }),
});
