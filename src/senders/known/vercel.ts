/** Vercel. */
import { page, ran, report, silent, undecided } from '../evidence.ts';
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
  retries: {
    when: 'for up to 24 hours, more and more rarely',
    signed: 'unsaid',
    from: report('hookdeck/webhook-skills f8a4801, skills/vercel-webhooks/references/overview.md'),
  },
  answer: {
    what: 'a 2xx within 30 seconds',
    from: report('hookdeck/webhook-skills f8a4801, skills/vercel-webhooks/references/overview.md'),
  },
  evidence: {
    secret: ran('@trigger.dev/core'),
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
