/** Bland AI. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const bland: Sender = hmacBody({
  id: 'bland',
  aliases: ['bland_ai'],
  name: 'Bland AI',
  headers: ['X-Webhook-Signature'],
  secret: { what: 'the webhook signing secret', where: 'Account settings → Keys' },
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Set `webhook` of the call or the number to the URL of the table, and create a signing secret.'],
  example: ({ id, nowMs }) => ({
    call_id: uuid(id),
    status: 'completed',
    completed: true,
    created_at: isoTime(nowMs),
    concatenated_transcript: 'Grüße',
  }),
});
