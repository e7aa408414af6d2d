/** Square. */
import { known, page, ran, report, vector } from '../evidence.ts';
import { utf8 } from '../expressions.ts';
import type { Sender } from '../sender.ts';
import { urlHmac } from '../signed-url.ts';
import { isoTime, uuid } from '../signing.ts';

export const square: Sender = urlHmac({
  id: 'square',
  name: 'Square',
  algorithm: 'sha256',
  bytes: `${utf8('url')} || payload`,
  parts: ({ url, body }) => [url, body],
  headers: ['x-square-hmacsha256-signature'],
  secret: {
    what: 'the subscription’s signature key',
    where: 'Developer Console → the app → Webhooks → the subscription',
  },
  delivery: known(
    { fields: [['event_id']] },
    page('developer.squareup.com/docs/webhooks/overview', 'November 2026'),
  ),
  evidence: {
    signature: [ran('square'), vector('square/square-nodejs-sdk, tests/integration/webhooks.test.ts')],
    rotation: page('developer.squareup.com, “Update webhook subscription signature key”', 'November 2026'),
    event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
  },
  answer: {
    what: 'a 2xx within 10 seconds',
    from: page('developer.squareup.com/docs/webhooks/step4manage', 'November 2026'),
  },
  retries: {
    when: 'and says so in `square-retry-number`',
    signed: 'unsaid',
    from: report('api-evangelist/square, its description of the events, August 2026'),
  },
  steps: [
    'In the Developer Console open the app → Webhooks → Subscriptions → Add subscription.',
    'Notification URL: the URL of the table, exactly as Square will call it. Choose the events and save.',
  ],
  example: ({ id, nowMs }) => ({
    merchant_id: '6SSW7HV8K2ST5',
    type: 'payment.updated',
    event_id: uuid(id),
    created_at: isoTime(nowMs),
    data: { type: 'payment', id: 'hYy9pRFVxpDsO1FB05SunFWUe9JZY' },
  }),
});
