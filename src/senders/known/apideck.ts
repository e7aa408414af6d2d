/** Apideck Unify. */
import { page, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { tokenInQuery } from '../token-forms.ts';

export const apideck: Sender = tokenInQuery('token', {
  id: 'apideck',
  name: 'Apideck Unify',
  delivery: unverified({ fields: [['payload', 'event_id']] }),
  retries: {
    when: 'up to 9 times: after 3, 5, 10 and 30 minutes, then after 1, 2, 4, 8 and 12 hours',
    afterS: [180, 480, 1080, 2880, 6480, 13680, 28080, 56880, 100080],
    signed: 'unsaid',
    from: page('help.apideck.com, “Are webhooks retried when they cannot be delivered?”', 'November 2026'),
  },
  evidence: { handshake: page('help.apideck.com, “Validating a delivery URL”', 'November 2026') },
  steps: [
    'Create the table first: Apideck calls it when the subscription is created.',
    'Open Configuration → Webhooks → Add endpoint, or `POST /webhook/webhooks`, with `delivery_url`, the URL of the table followed by `?token=` and the text of the secret.',
  ],
  notes: [
    'Apideck also signs (`x-apideck-signature`), but a text with the keys of the document in another order than in the body: an expression cannot sort them, so the signature is not checked here.',
  ],
  eventHeaders: () => ({ 'x-apideck-event-type': 'crm.contact.updated' }),
  example: ({ id, nowMs }) => ({
    payload: {
      event_id: uuid(id),
      event_type: 'crm.contact.updated',
      service_id: 'salesforce',
      entity_id: id,
      occurred_at: isoTime(nowMs),
    },
  }),
});
