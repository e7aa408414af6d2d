/** Dwolla. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const dwolla: Sender = hmacBody({
  id: 'dwolla',
  name: 'Dwolla',
  headers: ['X-Request-Signature-SHA-256'],
  secret: { what: 'the subscription’s `secret`', where: 'you choose it' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'Create webhook subscriptions through the API: `POST /webhook-subscriptions` with `url`, the URL of the table, and `secret`.',
  ],
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    resourceId: uuid(id),
    topic: 'transfer_completed',
    timestamp: isoTime(nowMs),
    _links: {},
  }),
});
