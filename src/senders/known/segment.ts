/** Segment. */
import { known, page } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const segment: Sender = hmacBody({
  id: 'segment',
  name: 'Segment (webhook destination)',
  algorithm: 'sha1',
  headers: ['X-Signature'],
  secret: { what: 'the shared secret', where: 'you choose it in the destination’s settings' },
  delivery: known(
    { fields: [['messageId']] },
    page('segment.com/docs, “Webhooks (Actions) Destination” and “Handling Duplicate Data”', 'November 2025'),
    'Several mappings of one event, each with its own URL, share the id; so do events to which your own code gives one `messageId`.',
  ),
  retries: {
    when: 'for up to 4 hours after a timeout or a 5xx',
    signed: 'unsaid',
    from: page(
      'segment.com/docs, “Webhooks (Actions) Destination” and “Handling Duplicate Data”',
      'November 2025',
    ),
  },
  answer: {
    what: 'an answer within 5 seconds',
    from: page(
      'segment.com/docs, “Webhooks (Actions) Destination” and “Handling Duplicate Data”',
      'November 2025',
    ),
  },
  evidence: {
    signature: page(
      'segment.com/docs, “Webhooks (Actions) Destination” and “Handling Duplicate Data”',
      'November 2025',
    ),
  },
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
