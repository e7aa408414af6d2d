/** Customer.io (reporting webhooks). */
import { report, unverified } from '../evidence.ts';
import { timedHeaders } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';

export const customerIo: Sender = timedHeaders({
  id: 'customer_io',
  aliases: ['customerio'],
  name: 'Customer.io (reporting webhooks)',
  headers: ['X-CIO-Signature', 'X-CIO-Timestamp'],
  start: 'v0:',
  join: ':',
  toleranceS: 3600,
  secret: { what: 'the webhook signing key', where: 'Integrations → Reporting Webhooks → the webhook' },
  delivery: unverified({ fields: [['event_id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Integrations → Reporting Webhooks → Add, with the URL of the table, and choose the events.'],
  notes: ['Customer.io states no tolerance; this check allows an hour.'],
  example: ({ id, nowMs }) => ({
    event_id: id,
    object_type: 'email',
    metric: 'delivered',
    timestamp: Math.floor(nowMs / 1000),
    data: { recipient: 'zoe@example.com' },
  }),
});
