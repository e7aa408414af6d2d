/** Gogs. */
import { code, known } from '../evidence.ts';
import { hmacBody, repository } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const gogs: Sender = hmacBody({
  id: 'gogs',
  name: 'Gogs',
  headers: ['X-Gogs-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  delivery: known(
    { header: 'X-Gogs-Delivery' },
    code('gogs/gogs, internal/database/webhook.go, internal/route/repo/webhook.go'),
  ),
  retries: {
    when: 'only when somebody chooses “Redelivery”',
    signed: 'unsaid',
    from: code('gogs/gogs, internal/database/webhook.go, internal/route/repo/webhook.go'),
  },
  evidence: {
    signature: code('gogs/gogs, internal/database/webhook.go'),
    event: code('gogs/gogs, internal/database/webhook.go'),
  },
  steps: [
    'Open the repository, Settings → Webhooks → Add a new webhook → Gogs.',
    'Payload URL: the URL of the table, content type `application/json`. Secret: the text of the secret.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Gogs-Event': 'create', 'X-Gogs-Delivery': uuid(id) }),
  example: ({ id }) => ({ ref: `v1.${numeric(id)}`, ref_type: 'tag', repository }),
});
