/** Column. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const column: Sender = hmacBody({
  id: 'column',
  name: 'Column',
  headers: ['Column-Signature'],
  secret: { what: 'the endpoint’s secret', where: 'shown when the endpoint is created' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Platform → Webhooks → Add endpoint with the URL of the table, or through the API.'],
  example: ({ id, nowMs }) => ({
    id: `evnt_${id.slice(0, 26)}`,
    type: 'ach.outgoing_transfer.completed',
    created_at: isoTime(nowMs),
    data: { amount: 1999 },
  }),
});
