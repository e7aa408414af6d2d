/** Checkout.com. */
import { page, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const checkout: Sender = hmacBody({
  id: 'checkout',
  aliases: ['checkout_com'],
  name: 'Checkout.com',
  headers: ['Cko-Signature'],
  secret: {
    what: 'the signature key of the workflow’s webhook action',
    where: 'you choose it or have it generated',
  },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: page('checkout.com/docs, “Set up your webhook receiver”', 'November 2026') },
  steps: [
    'Open Developers → Workflows → Add workflow → Receive webhook with the URL of the table, and show the signature key.',
  ],
  example: ({ id, nowMs }) => ({
    id: `evt_${id.slice(0, 26)}`,
    type: 'payment_approved',
    version: '1.0.0',
    created_on: isoTime(nowMs),
    data: { id: 'pay_waji3dd46ufudiuqnwgj2ub3d4', amount: 1999, currency: 'EUR' },
  }),
});
