/** Asana. */
import { code, none, page, silent } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const asana: Sender = hmacBody({
  id: 'asana',
  name: 'Asana',
  headers: ['X-Hook-Signature'],
  secret: { what: 'the secret of the handshake', where: 'the header X-Hook-Secret of the first request' },
  retries: {
    when: 'for up to 24 hours',
    signed: 'unsaid',
    from: page('developers.asana.com/docs/webhook-limits', 'November 2026'),
  },
  answer: {
    what: 'a 2xx within 10 seconds',
    from: page('developers.asana.com/docs/webhook-limits', 'November 2026'),
  },
  evidence: {
    signature: code('Asana/devrel-examples, javascript/webhooks-nodejs/index.js'),
    handshake: code('Asana/developer-docs, defs/asana_oas.yaml'),
    secret: code('Asana/devrel-examples, javascript/webhooks-nodejs/index.js'),
    rotation: silent('developers.asana.com/docs/webhooks'),
  },
  delivery: none(
    'Asana’s events have no id: they say user, resource, type, action, parent, change and time',
    code('Asana/developer-docs 3920826, defs/asana_oas.yaml, EventResponse'),
  ),
  events: { what: 'event', at: ['events'] },
  steps: [
    'Create the secret and the table of this page first, and within ten minutes the webhook, through the API: `POST /webhooks` with `resource` and `target`, the URL of the table.',
    'Asana sends the secret during that call: `SHOW SECRETS` shows where it came from. Each webhook has its own secret, so it needs its own table.',
    "If the call was late, or `SHOW SECRETS` says that the secret is contested: `ALTER SECRET asana_secret WITH (learn = '10 minutes')`, and create the webhook again.",
  ],
  example: ({ id, nowMs }) => ({
    events: [
      {
        action: 'changed',
        resource: { gid: String(numeric(id)), resource_type: 'task' },
        created_at: isoTime(nowMs),
      },
    ],
  }),
});
