/** Checkr. */
import { code, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const checkr: Sender = hmacBody({
  id: 'checkr',
  name: 'Checkr',
  headers: ['X-Checkr-Signature'],
  secret: { what: 'the account’s API key', where: 'Account settings → Developer settings' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: code('checkr/webhook-verification-examples eea406d, verify_signature.js') },
  steps: ['Open Account settings → Developer settings → Webhooks, with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    id: id.slice(0, 24),
    object: 'event',
    type: 'report.completed',
    created_at: isoTime(nowMs),
    data: { object: { id: id.slice(0, 24), status: 'clear' } },
  }),
});
