/** Patreon. */
import { code } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const patreon: Sender = hmacBody({
  id: 'patreon',
  name: 'Patreon',
  algorithm: 'md5',
  headers: ['X-Patreon-Signature'],
  secret: { what: 'the webhook’s secret', where: 'on the page of the webhooks' },
  evidence: {
    signature: code('Patreon/platform-documentation 46077b3, source/includes/_webhooks_v2.md'),
    event: code('Patreon/platform-documentation 46077b3, source/includes/_webhooks_v2.md'),
  },
  steps: [
    'On the developer portal’s page of webhooks add the URL of the table, choose the triggers and copy the secret.',
  ],
  notes: ['Patreon sends an HMAC with MD5; it is weaker than the others, though not known to be broken.'],
  eventHeaders: () => ({ 'X-Patreon-Event': 'members:create' }),
  example: ({ id }) => ({
    data: {
      type: 'member',
      id: uuid(id),
      attributes: { full_name: 'Zoë', patron_status: 'active_patron' },
    },
  }),
});
