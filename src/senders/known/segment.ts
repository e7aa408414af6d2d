/** Segment. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const segment: Sender = hmacBody({
  id: 'segment',
  name: 'Segment (webhook destination)',
  algorithm: 'sha1',
  headers: ['X-Signature'],
  secret: { what: 'the shared secret', where: 'you choose it in the destination’s settings' },
  deliveryId: { fields: [['messageId']] },
  steps: [
    'Add the destination “Webhooks” to the source.',
    'Webhook URL: the URL of the table. Shared Secret: the text of the secret. Enable the destination.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'track',
    event: 'Order Completed',
    messageId: `ajs-next-${id}`,
    timestamp: isoTime(nowMs),
    userId: 'u-583231',
    properties: { revenue: 39.95, currency: 'EUR' },
  }),
});
