/** Resend. */
import { code, ran, report, unfound } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { standard, svixRetries, whsec } from '../standard-webhooks.ts';

export const resend: Sender = standard({
  id: 'resend',
  name: 'Resend',
  prefix: 'svix',
  secret: whsec('on the webhook’s page'),
  evidence: {
    signature: ran('resend'),
    rotation: unfound(),
    event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
  },
  retries: svixRetries,
  answer: {
    what: 'a 2xx within 15 seconds',
    from: code('svix/svix-docs a3cf04a, content/receiving/introduction.mdx, by which Resend delivers'),
  },
  steps: ['Open Webhooks → Add Webhook with the URL of the table, choose events, copy the signing secret.'],
  example: ({ id, nowMs }) => ({
    type: 'email.delivered',
    created_at: isoTime(nowMs),
    data: { email_id: uuid(id), to: ['zoe@example.com'], subject: 'Bonjour ☕' },
  }),
});
