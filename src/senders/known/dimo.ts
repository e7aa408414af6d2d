/** DIMO vehicle triggers. */
import { page } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';
import { tokenInQuery } from '../token-forms.ts';

export const dimo: Sender = tokenInQuery('token', {
  id: 'dimo',
  name: 'DIMO vehicle triggers',
  evidence: { handshake: page('docs.dimo.org, “Vehicle Triggers API”', 'November 2026') },
  steps: [
    'Create the table first: DIMO calls it while the webhook is created.',
    'Create webhooks in the Developer Console or through the API: `POST /v1/webhooks` with `targetURL`, the URL of the table followed by `?token=` and the text of the secret, and `verificationToken`, the text of the second secret.',
  ],
  example: ({ id, nowMs }) => ({
    id,
    source: 'vehicle-triggers-api',
    subject: `did:erc721:137:0xbA5738a18d83D41847dfFbDC6101d37C69c9B0cF:${numeric(id)}`,
    time: isoTime(nowMs),
    type: 'dimo.trigger',
    data: { metricName: 'speed', value: 96 },
  }),
});
