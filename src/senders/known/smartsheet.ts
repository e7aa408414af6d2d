/** Smartsheet. */
import { page } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric, uuid } from '../signing.ts';

export const smartsheet: Sender = hmacBody({
  id: 'smartsheet',
  name: 'Smartsheet',
  headers: ['Smartsheet-Hmac-SHA256'],
  secret: { what: '`sharedSecret`', where: 'in the answer of the call that creates the webhook' },
  evidence: {
    signature: page('developers.smartsheet.com, “Webhooks”', 'November 2026'),
    handshake: page('developers.smartsheet.com, “Webhook verification”', 'November 2026'),
  },
  steps: [
    'Create webhooks through the API: `POST /webhooks` with `callbackUrl`, the URL of the table. Put `sharedSecret` from the answer into the secret, then enable the webhook: `PUT /webhooks/{id}` with `{"enabled": true}`.',
  ],
  notes: ['The URL must use port 443, 8000, 8008, 8080 or 8443.'],
  example: ({ id, nowMs }) => ({
    nonce: uuid(id),
    timestamp: isoTime(nowMs),
    webhookId: 4503604829677444,
    scope: 'sheet',
    scopeObjectId: 4509506114742148,
    events: [{ objectType: 'row', eventType: 'updated', id: numeric(id), userId: 9007194052434043 }],
  }),
});
