/** Greenhouse. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const greenhouse: Sender = hmacBody({
  id: 'greenhouse',
  name: 'Greenhouse',
  prefix: 'sha256 ',
  headers: ['Signature'],
  secret: { what: 'the webhook’s secret key', where: 'you choose it' },
  delivery: unverified({ header: 'Greenhouse-Event-ID' }),
  evidence: { signature: report('simstudioai/sim, its webhook providers') },
  steps: ['Open Configure → Dev Center → Web Hooks, with the URL of the table and a secret key.'],
  eventHeaders: ({ id }) => ({ 'Greenhouse-Event-ID': String(numeric(id)) }),
  example: ({ id, nowMs }) => ({
    action: 'candidate_hired',
    payload: {
      application: { id: numeric(id), applied_at: isoTime(nowMs), candidate: { first_name: 'Zoë' } },
    },
  }),
});
