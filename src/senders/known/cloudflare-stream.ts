/** Cloudflare Stream. */
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const cloudflareStream: Sender = timestampedList({
  id: 'cloudflare_stream',
  name: 'Cloudflare Stream',
  time: 'time',
  version: 'sig1',
  toleranceS: 300,
  headers: ['Webhook-Signature'],
  secret: {
    what: 'the `secret` from the answer',
    where: 'in the answer of the call that sets the webhook',
  },
  steps: [
    'Set the webhook through the API: `PUT /accounts/…/stream/webhook` with `notificationUrl`, the URL of the table.',
  ],
  example: ({ id, nowMs }) => ({
    uid: id,
    readyToStream: true,
    status: { state: 'ready' },
    meta: { name: 'café.mp4' },
    modified: isoTime(nowMs),
  }),
});
