/** Dub. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { textSecret, type Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const dub: Sender = hmacBody({
  id: 'dub',
  name: 'Dub',
  headers: ['Dub-Signature'],
  secret: { what: 'the webhook’s signing secret', where: 'Settings → Webhooks → the webhook' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: ['Open Settings → Webhooks → Create with the URL of the table, and choose the events.'],
  makeSecret: textSecret('whsec_', 16),
  example: ({ id, nowMs }) => ({
    id: `evt_${id.slice(0, 24)}`,
    event: 'link.clicked',
    createdAt: isoTime(nowMs),
    data: { link: { key: 'café' } },
  }),
});
