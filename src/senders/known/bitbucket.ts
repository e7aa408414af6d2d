/** Bitbucket Cloud and Data Center. */
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const bitbucket: Sender = hmacBody({
  id: 'bitbucket',
  name: 'Bitbucket Cloud and Data Center',
  prefix: 'sha256=',
  headers: ['X-Hub-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  deliveryId: { header: 'X-Request-UUID', or: 'X-Request-Id (Data Center)' },
  steps: [
    'Open Repository settings → Webhooks → Add webhook.',
    'URL: the URL of the table. Secret: the text of the secret. Choose the triggers and save.',
  ],
  notes: [
    'Data Center has a “Test connection” that sends `diagnostics:ping`; it may arrive without a signature.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Event-Key': 'repo:push', 'X-Request-UUID': uuid(id) }),
  example: ({ id }) => ({
    push: { changes: [{ new: { type: 'branch', name: 'main', target: { hash: id } } }] },
    repository: { type: 'repository', full_name: 'acme/shop' },
    actor: { display_name: 'Zoë' },
  }),
});
