/** Forgejo. */
import { code, none } from '../evidence.ts';
import { hmacBody, repository } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const forgejo: Sender = hmacBody({
  id: 'forgejo',
  aliases: ['codeberg'],
  name: 'Forgejo',
  headers: ['X-Forgejo-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  delivery: none(
    'Forgejo repeats nothing by itself, and “Redeliver” sends a new X-Forgejo-Delivery',
    code('go-gitea/gitea, models/webhook/hooktask.go'),
    'Every request is a new event: a table needs no option for repetitions.',
  ),
  retries: { when: null, signed: 'unsaid', from: code('go-gitea/gitea, models/webhook/hooktask.go') },
  evidence: {
    signature: code('go-gitea/gitea, services/webhook/deliver.go'),
    event: code('go-gitea/gitea, services/webhook/deliver.go'),
  },
  steps: [
    'Open the repository, Settings → Webhooks → Add webhook → Forgejo.',
    'Target URL: the URL of the table, method POST, content type `application/json`. Secret: the text of the secret.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Forgejo-Event': 'push', 'X-Forgejo-Delivery': uuid(id) }),
  example: ({ id }) => ({ ref: 'refs/heads/main', after: id, repository }),
});
