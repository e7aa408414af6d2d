/** Okta event and inline hooks. */
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const okta: Sender = tokenHeader('plain', {
  id: 'okta',
  name: 'Okta event and inline hooks',
  headers: ['Authorization'],
  secret: chosen(),
  deliveryId: { fields: [['eventId']] },
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
