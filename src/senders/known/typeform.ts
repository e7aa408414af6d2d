/** Typeform. */
import { known, page, ran, report } from '../evidence.ts';
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
  delivery: known(
    { fields: [['event_id']] },
    report(
      'trigger.dev, “AI agents with Typeform webhooks”: retries have the same event_id; Typeform itself calls it the webhook’s unique id',
    ),
  ),
  evidence: {
    signature: ran('@trigger.dev/core'),
    secret: page('typeform.com/developers/webhooks, “Create or update webhook”', 'November 2026'),
    event: page('typeform.com/developers/webhooks, “Example payload”', 'November 2026'),
    rotation: page('typeform.com/developers/webhooks, “Create or update webhook”', 'November 2026'),
  },
  retries: {
    when: 'after 5, 10, 20, 60 and 120 minutes; every 2 to 3 minutes for 10 hours on 408, 423, 429 and 503',
    afterS: [300, 600, 1200, 3600, 7200, 36000],
    signed: 'unsaid',
    from: page('typeform.com/developers/webhooks', 'November 2026'),
  },
  answer: {
    what: 'a 2xx within 30 seconds; 404 and 410 switch the webhook off',
    from: page('typeform.com/developers/webhooks', 'November 2026'),
  },
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
