/** Uber (Eats, Direct). */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const uber: Sender = hmacBody({
  id: 'uber',
  aliases: ['uber_eats', 'uber_direct'],
  name: 'Uber (Eats, Direct)',
  headers: ['X-Uber-Signature'],
  secret: { what: 'the app’s client secret or the webhook’s signing key', where: 'the app’s settings' },
  delivery: unverified({ fields: [['event_id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['In the developer dashboard open the app → Webhooks, with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    event_id: uuid(id),
    event_type: 'orders.notification',
    event_time: Math.floor(nowMs / 1000),
    resource_href: 'https://api.uber.com/v2/eats/order/1',
  }),
});
