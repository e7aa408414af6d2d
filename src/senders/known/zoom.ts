/** Zoom. */
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';
import { v0 } from '../timestamped.ts';

export const zoom: Sender = v0({
  id: 'zoom',
  name: 'Zoom',
  toleranceS: 300,
  headers: ['x-zm-signature', 'x-zm-request-timestamp'],
  secret: { what: 'the secret token', where: 'Zoom Marketplace → the app → Feature' },
  steps: [
    'On the Zoom Marketplace open the app → Feature → Event Subscriptions → Add.',
    'Event notification endpoint URL: the URL of the table. Choose the events and save.',
  ],
  example: ({ id, nowMs }) => ({
    event: 'meeting.started',
    event_ts: nowMs,
    payload: { account_id: 'AAAAAABBBB', object: { id: String(numeric(id)), uuid: id, topic: 'Café' } },
  }),
});
