/** EasyPost. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const easypost: Sender = hmacBody({
  id: 'easypost',
  aliases: ['easy_post'],
  name: 'EasyPost',
  prefix: 'hmac-sha256-hex=',
  headers: ['X-Hmac-Signature'],
  secret: { what: 'the webhook’s secret', where: 'you choose it' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: ran('@easypost/api') },
  steps: [
    'Create webhooks in the dashboard or through the API: `POST /webhooks` with `url`, the URL of the table, and `webhook_secret`.',
  ],
  notes: ['EasyPost normalises the secret (NFKD): choose one of letters and digits.'],
  example: ({ id, nowMs }) => ({
    id: `evt_${id}`,
    object: 'Event',
    description: 'tracker.updated',
    created_at: isoTime(nowMs),
    result: { id: `trk_${id}`, status: 'delivered' },
  }),
});
