/** Close. */
import { report, unverified } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import { same, type Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { forms } from '../secret-forms.ts';

export const close: Sender = timedHeaders({
  id: 'close',
  aliases: ['close_crm'],
  name: 'Close',
  headers: ['close-sig-hash', 'close-sig-timestamp'],
  key: 'hex',
  toleranceS: 300,
  secret: {
    what: 'the subscription’s `signature_key`, hexadecimal digits',
    where: 'in the answer of the call that creates it',
  },
  delivery: unverified({ fields: [['event', 'id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'Create webhook subscriptions through the API: `POST /api/v1/webhook/` with `url`, the URL of the table.',
  ],
  secretForm: forms.hex,
  makeSecret: (random) => same(random(32).toString('hex')),
  example: ({ id, nowMs }) => ({
    subscription_id: `whsub_${id.slice(0, 20)}`,
    event: {
      id: `ev_${id.slice(0, 22)}`,
      action: 'created',
      object_type: 'lead',
      date_created: isoTime(nowMs),
    },
  }),
});
