/** SavvyCal. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const savvycal: Sender = hmacBody({
  id: 'savvycal',
  name: 'SavvyCal',
  prefix: 'sha256=',
  headers: ['X-SavvyCal-Signature'],
  secret: { what: 'the webhook’s secret', where: 'Developer settings → Webhooks' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Open the developer settings → Webhooks → Create with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    id: `wh_evt_${id.slice(0, 20)}`,
    type: 'event.created',
    occurred_at: isoTime(nowMs),
    payload: { id: `event_${id.slice(0, 20)}` },
  }),
});
