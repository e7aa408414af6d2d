/** Paddle. */
import { known, page, ran } from '../evidence.ts';
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
  toleranceS: 300,
  headers: ['Paddle-Signature'],
  secret: {
    what: 'the endpoint’s secret key (`pdl_ntfset_…`)',
    where: 'Developer tools → Notifications → Edit destination',
  },
  delivery: known(
    // A replay is a new notification of the same event, with another `notification_id`.
    { fields: [['event_id']], stays: [['event_type'], ['data']] },
    page('developer.paddle.com, “How webhooks work” and “Handle webhook delivery”', 'November 2026'),
  ),
  retries: {
    when: '60 times within three days',
    signed: 'unsaid',
    lastS: 72 * 3_600,
    from: page('developer.paddle.com, “How webhooks work” and “Handle webhook delivery”', 'November 2026'),
  },
  answer: {
    what: 'a 200 within 5 seconds',
    from: page('developer.paddle.com, “How webhooks work” and “Handle webhook delivery”', 'November 2026'),
  },
  evidence: { signature: ran('@paddle/paddle-node-sdk') },
  steps: [
    'Open Developer tools → Notifications → New destination, type URL, with the URL of the table.',
    'Choose the events, save, and copy the secret key from the destination.',
  ],
  notes: [
    'Paddle’s own libraries allow 5 seconds, which refuses real deliveries whose way is long, such as through a tunnel; this check allows five minutes.',
  ],
  makeSecret: textSecret('pdl_ntfset_', 20),
  example: ({ id, nowMs }) => ({
    event_id: `evt_${id.slice(0, 26)}`,
    event_type: 'transaction.completed',
    occurred_at: isoTime(nowMs),
    data: { id: 'txn_01hv8wptq8987qeep44cyrewp9', status: 'completed', currency_code: 'EUR' },
  }),
});
