/** Onfido. */
import { ran } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const onfido: Sender = hmacBody({
  id: 'onfido',
  name: 'Onfido',
  headers: ['X-SHA2-Signature'],
  secret: { what: 'the webhook token', where: 'shown when the webhook is created' },
  evidence: { signature: ran('@onfido/api') },
  steps: ['Open Settings → Webhooks → Create webhook with the URL of the table, and copy the token.'],
  example: ({ id, nowMs }) => ({
    payload: {
      resource_type: 'check',
      action: 'check.completed',
      object: { id: uuid(id), status: 'complete', completed_at_iso8601: isoTime(nowMs) },
    },
  }),
});
