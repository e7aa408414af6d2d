/** Razorpay. */
import { known, page, ran, report, vector } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const razorpay: Sender = hmacBody({
  id: 'razorpay',
  name: 'Razorpay',
  headers: ['X-Razorpay-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  delivery: known(
    { header: 'X-Razorpay-Event-Id' },
    page('razorpay.com/docs/webhooks/best-practices', 'November 2026'),
  ),
  retries: {
    when: 'for 24 hours, more and more rarely',
    signed: 'unsaid',
    from: page('razorpay.com/docs/webhooks/best-practices', 'November 2026'),
  },
  answer: {
    what: 'a 2xx within 5 seconds',
    from: page('razorpay.com/docs/webhooks/best-practices', 'November 2026'),
  },
  evidence: {
    signature: [ran('razorpay'), vector('razorpay/razorpay-node, test/utils/razorpay-utils.spec.js')],
    rotation: page('razorpay.com/docs/webhooks/validate-test', 'November 2026'),
    event: report('api-evangelist/razorpay, its description of the events, August 2026'),
  },
  notes: [
    'Razorpay signs an event that is older than a new secret with the old one, also when it tries again: name both for a day.',
  ],
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
