/** Cursor (cloud agents). */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const cursor: Sender = hmacBody({
  id: 'cursor',
  name: 'Cursor (cloud agents)',
  prefix: 'sha256=',
  headers: ['X-Webhook-Signature'],
  secret: { what: 'the webhook’s `secret`', where: 'you choose it, at least 32 characters' },
  delivery: unverified({ header: 'X-Webhook-ID' }),
  evidence: { signature: report('hookdeck/webhook-skills, February 2026') },
  steps: ['Create an agent through the API with `webhook`: `url`, the URL of the table, and `secret`.'],
  eventHeaders: ({ id }) => ({ 'X-Webhook-ID': id, 'X-Webhook-Event': 'statusChange' }),
  example: ({ id, nowMs }) => ({
    event: 'statusChange',
    timestamp: isoTime(nowMs),
    id: `bc_${id.slice(0, 8)}`,
    status: 'FINISHED',
  }),
});
