/** Paddle. */
import { type Sender, textSecret } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const paddle: Sender = timestampedList({
  id: 'paddle',
  name: 'Paddle (Billing)',
  time: 'ts',
  version: 'h1',
  separator: ';',
  join: ':',
  toleranceS: 5,
  oneSided: true,
  headers: ['Paddle-Signature'],
  secret: {
    what: 'the endpoint’s secret key (`pdl_ntfset_…`)',
    where: 'Developer tools → Notifications → Edit destination',
  },
  deliveryId: { fields: [['event_id']] },
  steps: [
    'Open Developer tools → Notifications → New destination, type URL, with the URL of the table.',
    'Choose the events, save, and copy the secret key from the destination.',
  ],
  notes: ['Paddle’s own libraries allow 5 seconds, and so does this check: keep the clock correct.'],
  makeSecret: textSecret('pdl_ntfset_', 20),
  example: ({ id, nowMs }) => ({
    event_id: `evt_${id.slice(0, 26)}`,
    event_type: 'transaction.completed',
    occurred_at: isoTime(nowMs),
    data: { id: 'txn_01hv8wptq8987qeep44cyrewp9', status: 'completed', currency_code: 'EUR' },
  }),
});
