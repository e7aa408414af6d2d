/** Lemon Squeezy. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { type Sender, textSecret } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const lemonSqueezy: Sender = hmacBody({
  id: 'lemon_squeezy',
  aliases: ['lemonsqueezy'],
  name: 'Lemon Squeezy',
  headers: ['X-Signature'],
  secret: { what: 'the signing secret, 6 to 40 characters', where: 'you choose it' },
  evidence: { signature: report('a public receiver’s table of signatures, read in November 2026') },
  steps: ['Open Settings → Webhooks → + with the URL of the table, the signing secret and the events.'],
  makeSecret: textSecret('', 20),
  eventHeaders: () => ({ 'X-Event-Name': 'order_created' }),
  example: ({ id, nowMs }) => ({
    meta: { event_name: 'order_created', custom_data: { customer_id: '25' } },
    data: {
      type: 'orders',
      id: String(numeric(id)),
      attributes: { status: 'paid', total: 1999, created_at: isoTime(nowMs) },
    },
  }),
});
