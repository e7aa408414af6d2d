/** Gitea. */
import { hmacBody, repository } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const gitea: Sender = hmacBody({
  id: 'gitea',
  name: 'Gitea',
  headers: ['X-Gitea-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  deliveryId: { header: 'X-Gitea-Delivery' },
  steps: [
    'Open the repository, Settings → Webhooks → Add Webhook → Gitea.',
    'Target URL: the URL of the table, method POST, content type `application/json`. Secret: the text of the secret.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Gitea-Event': 'push', 'X-Gitea-Delivery': uuid(id) }),
  example: ({ id }) => ({ ref: 'refs/heads/main', after: id, repository }),
});
