/** Forgejo. */
import { hmacBody, repository } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const forgejo: Sender = hmacBody({
  id: 'forgejo',
  name: 'Forgejo',
  headers: ['X-Forgejo-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  deliveryId: { header: 'X-Forgejo-Delivery' },
  steps: [
    'Open the repository, Settings → Webhooks → Add webhook → Forgejo.',
    'Target URL: the URL of the table, method POST, content type `application/json`. Secret: the text of the secret.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Forgejo-Event': 'push', 'X-Forgejo-Delivery': uuid(id) }),
  example: ({ id }) => ({ ref: 'refs/heads/main', after: id, repository }),
});
