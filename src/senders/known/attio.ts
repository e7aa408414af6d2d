/** Attio. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const attio: Sender = hmacBody({
  id: 'attio',
  name: 'Attio',
  headers: ['Attio-Signature'],
  secret: { what: 'the webhook’s secret', where: 'in the answer of the call that creates it' },
  delivery: unverified({ header: 'Idempotency-Key' }),
  evidence: { signature: ran('@trigger.dev/core') },
  steps: [
    'Create webhooks in the developer settings or through the API: `POST /v2/webhooks` with `target_url`, the URL of the table.',
  ],
  eventHeaders: ({ id }) => ({ 'Idempotency-Key': uuid(id) }),
  example: ({ id, nowMs }) => ({
    webhook_id: uuid(id),
    events: [{ event_type: 'record.updated', id: { record_id: uuid(id) }, at: isoTime(nowMs) }],
  }),
});
