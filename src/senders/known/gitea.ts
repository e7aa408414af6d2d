/** Gitea. */
import { code, none } from '../evidence.ts';
import { hmacBody, repository } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const gitea: Sender = hmacBody({
  id: 'gitea',
  name: 'Gitea',
  headers: ['X-Gitea-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  delivery: none(
    'Gitea repeats nothing by itself, and “Redeliver” sends a new X-Gitea-Delivery',
    code('go-gitea/gitea, models/webhook/hooktask.go'),
    'Every request is a new event: a table needs no option for repetitions.',
  ),
  retries: { when: null, signed: 'unsaid', from: code('go-gitea/gitea, models/webhook/hooktask.go') },
  evidence: {
    signature: code('go-gitea/gitea, services/webhook/deliver.go'),
    event: code('go-gitea/gitea, services/webhook/deliver.go'),
  },
  steps: [
    'Open the repository, Settings → Webhooks → Add Webhook → Gitea.',
    'Target URL: the URL of the table, method POST, content type `application/json`. Secret: the text of the secret.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Gitea-Event': 'push', 'X-Gitea-Delivery': uuid(id) }),
  example: ({ id }) => ({ ref: 'refs/heads/main', after: id, repository }),
});
