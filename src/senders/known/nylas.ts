/** Nylas. */
import { code, known, page } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const nylas: Sender = hmacBody({
  id: 'nylas',
  name: 'Nylas (v3)',
  headers: ['X-Nylas-Signature'],
  // With compressed_delivery the bytes on the wire are signed.
  expression: (s) =>
    ['payload', 'encoded_body']
      .map((bytes) => `secure_compare(${header('X-Nylas-Signature')}, ${hmac(s, bytes, 'sha256', 'hex')})`)
      .join('\n  OR '),
  secret: { what: '`webhook_secret`', where: 'in the answer of the call that creates the webhook' },
  delivery: known(
    { fields: [['id']] },
    page('developer.nylas.com, “Handle duplicate webhook deliveries”', 'November 2026'),
  ),
  evidence: {
    signature: code('nylas/nylas-nodejs, src/resources/webhooks.ts'),
    handshake: code('nylas/nylas-nodejs, src/resources/webhooks.ts'),
    rotation: code('nylas/nylas-nodejs, src/resources/webhooks.ts'),
  },
  retries: {
    when: 'twice',
    signed: 'unsaid',
    from: page('developer.nylas.com, “Handle duplicate webhook deliveries”', 'November 2026'),
  },
  answer: {
    what: 'a 200 within 10 seconds',
    from: page('developer.nylas.com, “Handle duplicate webhook deliveries”', 'November 2026'),
  },
  steps: [
    'Create the table first, with any secret: Nylas calls it while the webhook is created.',
    'Create webhooks through the API: `POST /v3/webhooks` with `webhook_url`, the URL of the table. Put `webhook_secret` from the answer into the secret with `ALTER SECRET`.',
  ],
  notes: [
    'With `compressed_delivery` Nylas signs the compressed bytes: a proxy in front must not decompress them.',
  ],
  example: ({ id, nowMs }) => ({
    specversion: '1.0',
    type: 'message.created',
    source: '/google/emails/realtime',
    id,
    time: Math.floor(nowMs / 1000),
    webhook_delivery_attempt: 1,
    data: { application_id: uuid(id), object: { object: 'message', subject: 'Grüße ☕' } },
  }),
});
