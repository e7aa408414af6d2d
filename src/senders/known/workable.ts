/** Workable. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const workable: Sender = hmacBody({
  id: 'workable',
  name: 'Workable',
  headers: ['X-Workable-Signature'],
  secret: { what: 'the API access token', where: 'Settings → Integrations → Apps' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Create subscriptions through the API: `POST /subscriptions` with `target`, the URL of the table.'],
  example: ({ id, nowMs }) => ({
    id: id.slice(0, 12),
    event_type: 'candidate_created',
    fired_at: isoTime(nowMs),
    resource_type: 'candidate',
    data: { name: 'Zoë' },
  }),
});
