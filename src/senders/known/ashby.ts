/** Ashby. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const ashby: Sender = hmacBody({
  id: 'ashby',
  name: 'Ashby',
  prefix: 'sha256=',
  headers: ['Ashby-Signature'],
  secret: { what: 'the webhook’s secret token', where: 'you choose it' },
  evidence: { signature: report('simstudioai/sim, its webhook providers') },
  steps: ['Open Admin → Integrations → Webhooks → New, with the URL of the table and a secret token.'],
  example: ({ id, nowMs }) => ({
    action: 'candidateStageChange',
    data: { application: { id: uuid(id), updatedAt: isoTime(nowMs), candidate: { name: 'Zoë' } } },
  }),
});
