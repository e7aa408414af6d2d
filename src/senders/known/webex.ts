/** Webex. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const webex: Sender = hmacBody({
  id: 'webex',
  aliases: ['cisco_webex', 'spark'],
  name: 'Webex',
  algorithm: 'sha1',
  headers: ['X-Spark-Signature'],
  secret: { what: 'the webhook’s `secret`', where: 'you choose it' },
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Create webhooks through the API: `POST /webhooks` with `targetUrl`, the URL of the table, and `secret`.',
  ],
  example: ({ id, nowMs }) => ({
    id,
    name: 'orders',
    resource: 'messages',
    event: 'created',
    created: isoTime(nowMs),
    data: { id, roomId: id },
  }),
});
