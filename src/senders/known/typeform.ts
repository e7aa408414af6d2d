/** Typeform. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoSeconds } from '../signing.ts';

export const typeform: Sender = hmacBody({
  id: 'typeform',
  name: 'Typeform',
  prefix: 'sha256=',
  encoding: 'base64',
  headers: ['Typeform-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  delivery: unverified({ fields: [['event_id']] }),
  evidence: { signature: ran('@trigger.dev/core') },
  steps: [
    'Open the form → Connect → Webhooks → Add a webhook with the URL of the table.',
    'Edit the webhook, enter the secret and switch it on.',
  ],
  example: ({ id, nowMs }) => ({
    event_id: id,
    event_type: 'form_response',
    form_response: {
      form_id: 'lT4Z3j',
      submitted_at: isoSeconds(nowMs),
      answers: [{ type: 'text', text: 'Zoë', field: { id: 'SMEUb7VJz92Q', type: 'short_text' } }],
    },
  }),
});
