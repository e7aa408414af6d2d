/** Zoom. */
import { code, none, page, ran, silent } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';
import { v0 } from '../timestamped.ts';

export const zoom: Sender = v0({
  id: 'zoom',
  name: 'Zoom',
  toleranceS: 7200,
  headers: ['x-zm-signature', 'x-zm-request-timestamp'],
  secret: { what: 'the secret token', where: 'Zoom Marketplace → the app → Feature' },
  retries: {
    when: '5, 25 and 85 minutes after the first attempt',
    afterS: [300, 1500, 5100],
    signed: 'unsaid',
    lastS: 85 * 60,
    from: page('developers.zoom.us/blog/webhook-delays', 'November 2026'),
  },
  answer: {
    what: 'a 200 or 204 within 3 seconds',
    from: page('developers.zoom.us/blog/webhook-delays', 'November 2026'),
  },
  evidence: {
    signature: [ran('@zoom/rivet'), ran('@trigger.dev/core'), code('zoom/webhook-sample, index.js')],
    handshake: code('zoom/webhook-sample, index.js'),
    event: code('zoom/webhook-sample, index.js'),
    rotation: silent('developers.zoom.us and zoom/webhook-sample'),
  },
  delivery: none(
    'Zoom documents no id of a delivery: its headers are x-zm-request-timestamp, x-zm-signature and x-zm-trackingid, and nobody says what the last one is',
    code('zoom/webhook-sample, README.md'),
  ),
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
