/** Paystack. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const paystack: Sender = hmacBody({
  id: 'paystack',
  name: 'Paystack',
  algorithm: 'sha512',
  headers: ['x-paystack-signature'],
  secret: { what: 'the secret key (`sk_live_…`, `sk_test_…`)', where: 'Settings → API Keys & Webhooks' },
  evidence: { signature: report('a public receiver’s table of signatures, read in November 2026') },
  steps: ['Open Settings → API Keys & Webhooks and enter the URL of the table as the webhook URL.'],
  example: ({ id, nowMs }) => ({
    event: 'charge.success',
    data: {
      id: numeric(id),
      reference: id.slice(0, 12),
      amount: 20000,
      currency: 'NGN',
      paid_at: isoTime(nowMs),
    },
  }),
});
