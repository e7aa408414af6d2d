/** Razorpay. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const razorpay: Sender = hmacBody({
  id: 'razorpay',
  name: 'Razorpay',
  headers: ['X-Razorpay-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  deliveryId: { header: 'X-Razorpay-Event-Id' },
  steps: [
    'In the dashboard open Account & Settings → Webhooks → Add New Webhook.',
    'Webhook URL: the URL of the table. Secret: the text of the secret. Choose the events.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Razorpay-Event-Id': id.slice(0, 14) }),
  example: ({ id, nowMs }) => ({
    entity: 'event',
    event: 'payment.captured',
    payload: { payment: { entity: { id: `pay_${id.slice(0, 14)}`, amount: 500000, currency: 'INR' } } },
    created_at: Math.floor(nowMs / 1000),
  }),
});
