/** GitLab. */
import { type Sender, same } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';
import { standard } from '../standard-webhooks.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const gitlab: readonly Sender[] = [
  standard({
    id: 'gitlab_signed',
    name: 'GitLab (signing token)',
    secret: { what: 'the signing token, `whsec_` and base64', where: 'in the webhook’s settings' },
    steps: [
      'Open the project’s Settings → Webhooks → Add new webhook with the URL of the table.',
      'Use a signing token if your GitLab offers one; otherwise `USING gitlab`.',
    ],
    makeSecret: (random) => same(`whsec_${random(32).toString('base64')}`),
    eventHeaders: () => ({ 'X-Gitlab-Event': 'Push Hook' }),
    example: ({ id }) => ({
      object_kind: 'push',
      after: id,
      project: { id: numeric(id), path_with_namespace: 'acme/shop' },
    }),
  }),
  tokenHeader('plain', {
    id: 'gitlab',
    name: 'GitLab (secret token)',
    headers: ['X-Gitlab-Token'],
    secret: chosen('the text you type as the secret token'),
    deliveryId: { header: 'X-Gitlab-Event-UUID', or: 'Idempotency-Key' },
    steps: [
      'Open the project or group, Settings → Webhooks → Add new webhook.',
      'URL: the URL of the table. Secret token: the text of the secret. Choose the triggers and save.',
    ],
    eventHeaders: ({ id }) => ({ 'X-Gitlab-Event': 'Push Hook', 'X-Gitlab-Event-UUID': uuid(id) }),
    example: ({ id }) => ({ object_kind: 'push', after: id, project: { id: numeric(id), name: 'café' } }),
  }),
];
