/** Okta event and inline hooks. */
import { known, page } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const okta: Sender = tokenHeader('plain', {
  id: 'okta',
  name: 'Okta event and inline hooks',
  headers: ['Authorization'],
  secret: chosen(),
  delivery: known({ fields: [['eventId']] }, page('okta/okta-developer-docs, “Event hooks”', 'August 2026')),
  retries: {
    when: 'at most once, after a timeout or a 5xx',
    signed: 'unsaid',
    from: page('okta/okta-developer-docs, “Event hooks”', 'August 2026'),
  },
  answer: {
    what: 'an empty 200 or 204 within 3 seconds',
    from: page('okta/okta-developer-docs, “Event hooks”', 'August 2026'),
  },
  evidence: {
    signature: page('okta/okta-developer-docs, “Event hooks”', 'August 2026'),
    handshake: page('okta/okta-developer-docs, “Event hooks”', 'August 2026'),
  },
  steps: [
    'In the admin console open Workflow → Event Hooks → Create Event Hook with the URL of the table.',
    'Authentication field: `Authorization`. Authentication secret: the text of the secret.',
  ],
  example: ({ id, nowMs }) => ({
    eventType: 'com.okta.event_hook',
    eventId: uuid(id),
    eventTime: isoTime(nowMs),
    data: { events: [{ eventType: 'user.lifecycle.create', displayMessage: 'Create Zoë' }] },
  }),
});
