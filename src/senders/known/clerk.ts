/** Clerk. */
import { code, ran, report } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { standard, svixRetries, whsec } from '../standard-webhooks.ts';

export const clerk: Sender = standard({
  id: 'clerk',
  name: 'Clerk',
  prefix: 'svix',
  secret: whsec('on the endpoint’s page'),
  evidence: {
    signature: ran('@clerk/backend'),
    event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
    rotation: code('clerk/clerk-docs, docs/guides/secure/rotate-api-keys.mdx'),
  },
  retries: svixRetries,
  answer: {
    what: 'a 2xx within 15 seconds',
    from: code(
      'clerk/clerk-docs, docs/guides/development/webhooks/overview.mdx, and svix/svix-docs a3cf04a, content/receiving/introduction.mdx',
    ),
  },
  steps: [
    'Open Configure → Webhooks → Add Endpoint with the URL of the table, choose events, copy the signing secret.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'user.created',
    object: 'event',
    timestamp: nowMs,
    data: { id: `user_${id.slice(0, 27)}`, first_name: 'Zoë', email_addresses: [] },
  }),
});
