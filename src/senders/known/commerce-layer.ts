/** Commerce Layer. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const commerceLayer: Sender = hmacBody({
  id: 'commerce_layer',
  aliases: ['commercelayer'],
  name: 'Commerce Layer',
  encoding: 'base64',
  headers: ['X-CommerceLayer-Signature'],
  secret: { what: 'the webhook’s shared secret', where: 'in the answer of the call that creates it' },
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Create webhooks in the dashboard or through the API: `POST /api/webhooks` with `callback_url`, the URL of the table.',
  ],
  eventHeaders: () => ({ 'X-CommerceLayer-Topic': 'orders.place' }),
  example: ({ id, nowMs }) => ({
    data: {
      id: id.slice(0, 10),
      type: 'orders',
      attributes: { status: 'placed', placed_at: isoTime(nowMs) },
    },
  }),
});
