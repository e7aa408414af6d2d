/** Airwallex. */
import { report, unverified } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const airwallex: Sender = timedHeaders({
  id: 'airwallex',
  name: 'Airwallex',
  headers: ['x-signature', 'x-timestamp'],
  unit: 'ms',
  toleranceS: 300,
  secret: { what: 'the webhook’s secret', where: 'Developer → Webhooks → the webhook' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Developer → Webhooks → Add webhook with the URL of the table, and copy the secret.'],
  example: ({ id, nowMs }) => ({
    id: `evt_${id.slice(0, 22)}`,
    name: 'payment_intent.succeeded',
    account_id: `acct_${id.slice(0, 22)}`,
    createdAt: isoTime(nowMs),
    data: { object: { amount: 19.99 } },
  }),
});
