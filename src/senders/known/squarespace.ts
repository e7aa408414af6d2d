/** Squarespace. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { same, type Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const squarespace: Sender = hmacBody({
  id: 'squarespace',
  name: 'Squarespace',
  key: 'hex',
  headers: ['Squarespace-Signature'],
  secret: {
    what: 'the subscription’s secret, hexadecimal digits',
    where: 'in the answer of the call that creates it',
  },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'Create webhook subscriptions through the API: `POST /1.0/webhook_subscriptions` with `endpointUrl`, the URL of the table.',
  ],
  makeSecret: (random) => same(random(32).toString('hex')),
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    websiteId: id.slice(0, 24),
    subscriptionId: uuid(id),
    topic: 'order.create',
    createdOn: isoTime(nowMs),
    data: { orderId: id.slice(0, 24) },
  }),
});
