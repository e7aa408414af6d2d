/** Greenhouse. */
import { code, undecided } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const greenhouse: Sender = hmacBody({
  id: 'greenhouse',
  name: 'Greenhouse',
  prefix: 'sha256 ',
  headers: ['Signature'],
  secret: { what: 'the webhook’s secret key', where: 'you choose it' },
  delivery: undecided(
    { header: 'Greenhouse-Event-ID' },
    'Greenhouse calls Greenhouse-Event-ID the unique id of a delivery, and does not say whether a retry has the same',
    code('grnhse/greenhouse-api-docs 0c37c31, source/includes/webhooks/_introduction.md'),
  ),
  evidence: {
    signature: code('grnhse/greenhouse-api-docs 0c37c31, source/includes/webhooks/_introduction.md'),
  },
  retries: {
    when: 'up to six times within 15 hours',
    signed: 'unsaid',
    from: code('grnhse/greenhouse-api-docs 0c37c31, source/includes/webhooks/_introduction.md'),
  },
  answer: {
    what: 'a 200',
    from: code('grnhse/greenhouse-api-docs 0c37c31, source/includes/webhooks/_introduction.md'),
  },
  steps: ['Open Configure → Dev Center → Web Hooks, with the URL of the table and a secret key.'],
  eventHeaders: ({ id }) => ({ 'Greenhouse-Event-ID': String(numeric(id)) }),
  example: ({ id, nowMs }) => ({
    action: 'candidate_hired',
    payload: {
      application: { id: numeric(id), applied_at: isoTime(nowMs), candidate: { first_name: 'Zoë' } },
    },
  }),
});
