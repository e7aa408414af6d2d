/** Polar. */
import { ran } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { textSecret } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { standard } from '../standard-webhooks.ts';

export const polar: Sender = standard({
  id: 'polar',
  name: 'Polar',
  aliases: ['polar_sh'],
  secret: { what: 'the endpoint’s secret, the whole text', where: 'you choose it, or have it generated' },
  keyIsText: true,
  secretForm: null,
  makeSecret: textSecret('polar_whs_', 20),
  evidence: { signature: ran('@polar-sh/sdk'), secret: ran('@polar-sh/sdk') },
  steps: [
    'Open Settings → Webhooks → Add Endpoint with the URL of the table, format Raw, choose the events, and copy the secret.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'order.paid',
    timestamp: isoTime(nowMs),
    data: { id: uuid(id), status: 'paid', total_amount: 1999, currency: 'eur' },
  }),
});
