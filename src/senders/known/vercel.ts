/** Vercel. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const vercel: Sender = hmacBody({
  id: 'vercel',
  name: 'Vercel',
  algorithm: 'sha1',
  headers: ['x-vercel-signature'],
  secret: { what: 'a text', where: 'shown once when the webhook is created' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: ran('@trigger.dev/core') },
  steps: [
    'Open the team’s Settings → Webhooks.',
    'Choose events and projects, enter the URL of the table and create the webhook.',
    'Copy the secret that is shown.',
  ],
  example: ({ id, nowMs }) => ({
    id: `evt_${id.slice(0, 24)}`,
    type: 'deployment.succeeded',
    createdAt: nowMs,
    payload: { deployment: { id: 'dpl_7Hqm', name: 'shop', url: 'shop-acme.vercel.app' } },
  }),
});
