/** Tally. */
import { page, report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const tally: Sender = hmacBody({
  id: 'tally',
  name: 'Tally',
  encoding: 'base64',
  headers: ['Tally-Signature'],
  secret: { what: 'the signing secret', where: 'you choose it' },
  delivery: unverified({ fields: [['eventId']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  retries: {
    when: 'after 5 and 30 minutes, 1, 6 and 24 hours',
    afterS: [300, 1800, 3600, 21600, 86400],
    signed: 'unsaid',
    from: page('developers.tally.so, “Retrying webhook events”', 'November 2026'),
  },
  steps: ['Open the form → Integrations → Webhooks, with the URL of the table and a signing secret.'],
  example: ({ id, nowMs }) => ({
    eventId: uuid(id),
    eventType: 'FORM_RESPONSE',
    createdAt: isoTime(nowMs),
    data: { responseId: id.slice(0, 6), fields: [{ label: 'Name', value: 'Zoë' }] },
  }),
});
