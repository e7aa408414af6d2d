/** Gogs. */
import { hmacBody, repository } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const gogs: Sender = hmacBody({
  id: 'gogs',
  name: 'Gogs',
  headers: ['X-Gogs-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  deliveryId: { header: 'X-Gogs-Delivery' },
  steps: [
    'Open the repository, Settings → Webhooks → Add a new webhook → Gogs.',
    'Payload URL: the URL of the table, content type `application/json`. Secret: the text of the secret.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Gogs-Event': 'create', 'X-Gogs-Delivery': uuid(id) }),
  example: ({ id }) => ({ ref: `v1.${numeric(id)}`, ref_type: 'tag', repository }),
});
