/** Mux. */
import { ran, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const mux: Sender = timestampedList({
  id: 'mux',
  name: 'Mux',
  time: 't',
  version: 'v1',
  toleranceS: 300,
  headers: ['Mux-Signature'],
  secret: { what: 'the webhook’s signing secret', where: 'Settings → Webhooks → Show signing secret' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: ran('@mux/mux-node') },
  steps: [
    'Open Settings → Webhooks → Create new webhook with the URL of the table, and show its signing secret.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'video.asset.ready',
    id: uuid(id),
    created_at: isoTime(nowMs),
    data: { id: 'SqQnqz6s5MBuXGvJaUWdXuXM93J9Q2yv', status: 'ready', duration: 23.857167 },
  }),
});
