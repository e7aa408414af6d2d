/** GoCardless. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const gocardless: Sender = hmacBody({
  id: 'gocardless',
  name: 'GoCardless',
  headers: ['Webhook-Signature'],
  secret: { what: 'the endpoint’s secret', where: 'shown when the endpoint is created; you may choose it' },
  delivery: unverified({ ofEach: 'id' }),
  events: { what: 'event', at: ['events'] },
  evidence: { signature: ran('gocardless-nodejs') },
  steps: [
    'In the dashboard open Developers → Create → Webhook endpoint, and enter the URL of the table and the secret.',
  ],
  notes: ['One request contains up to 250 events, which are stored as one row.'],
  example: ({ id, nowMs }) => ({
    events: [
      {
        id: `EV${id.slice(0, 14).toUpperCase()}`,
        created_at: isoTime(nowMs),
        resource_type: 'payments',
        action: 'confirmed',
        links: { payment: 'PM123' },
      },
    ],
  }),
});
