/** Clerk. */
import { ran } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { standard, whsec } from '../standard-webhooks.ts';

export const clerk: Sender = standard({
  id: 'clerk',
  name: 'Clerk',
  prefix: 'svix',
  secret: whsec('on the endpoint’s page'),
  evidence: { signature: ran('@clerk/backend') },
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
