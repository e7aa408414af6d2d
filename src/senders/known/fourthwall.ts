/** Fourthwall. */
import { report, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const fourthwall: Sender = hmacBody({
  id: 'fourthwall',
  name: 'Fourthwall',
  encoding: 'base64',
  headers: ['X-Fourthwall-Hmac-SHA256'],
  secret: { what: 'the webhook’s HMAC secret', where: 'Settings → For developers → Webhooks' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: report('Yizack/nuxt-webhook-validators, August 2026') },
  steps: ['Open Settings → For developers → Webhooks → Create with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    id: `weve_${id.slice(0, 20)}`,
    type: 'ORDER_PLACED',
    createdAt: isoTime(nowMs),
    data: { id: uuid(id), email: 'zoe@example.com' },
  }),
});
