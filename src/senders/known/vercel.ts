/** Vercel. */
import { page, ran, silent, undecided } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const vercel: Sender = hmacBody({
  id: 'vercel',
  name: 'Vercel',
  algorithm: 'sha1',
  headers: ['x-vercel-signature'],
  secret: { what: 'a text', where: 'shown once when the webhook is created' },
  delivery: undecided(
    { fields: [['id']] },
    'Vercel calls $.id the id of the webhook delivery, and does not say whether a retry has the same',
    page('vercel.com/docs/webhooks/webhooks-api', 'November 2026'),
  ),
  evidence: {
    signature: [ran('@trigger.dev/core'), page('vercel.com/docs/webhooks', 'November 2026')],
    event: page('vercel.com/docs/webhooks/webhooks-api', 'November 2026'),
    rotation: silent('vercel.com/docs/webhooks'),
  },
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
