/** Clio Manage. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const clio: Sender = hmacBody({
  id: 'clio',
  name: 'Clio Manage',
  headers: ['X-Hook-Signature'],
  secret: { what: 'the secret of the handshake', where: 'the header X-Hook-Secret of the first request' },
  steps: [
    'Create the secret and the table of this page first, and within ten minutes the webhook, through the API: `POST /api/v4/webhooks` with `url`, the URL of the table, `model` and `events`. Renew it before `expires_at`.',
    'Clio sends the secret when the webhook is created: `SHOW SECRETS` shows where it came from. Each webhook has its own secret, so it needs its own table.',
    "If the call was late, or `SHOW SECRETS` says that the secret is contested: `ALTER SECRET clio_secret WITH (learn = '10 minutes')`, and create the webhook again.",
  ],
  example: ({ id, nowMs }) => ({
    data: { id: numeric(id), etag: `"${id}"`, updated_at: isoTime(nowMs) },
    meta: { event: 'updated', webhook_id: 1 },
  }),
});
