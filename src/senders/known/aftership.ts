/** AfterShip. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const aftership: Sender = hmacBody({
  id: 'aftership',
  name: 'AfterShip',
  encoding: 'base64',
  headers: ['aftership-hmac-sha256'],
  secret: { what: 'the webhook secret', where: 'Settings → Notifications → Webhooks' },
  delivery: unverified({ fields: [['event_id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Webhooks and add the URL of the table.'],
  example: ({ id, nowMs }) => ({
    event: 'tracking_update',
    event_id: uuid(id),
    ts: Math.floor(nowMs / 1000),
    msg: { id, tag: 'InTransit' },
  }),
});
