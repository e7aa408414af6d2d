/** GitLab. */
import { code, known, page, silent } from '../evidence.ts';
import { type Sender, same } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';
import { standard } from '../standard-webhooks.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const gitlab: readonly Sender[] = [
  standard({
    id: 'gitlab_signed',
    name: 'GitLab (signing token)',
    secret: { what: 'the signing token, `whsec_` and base64', where: 'in the webhook’s settings' },
    evidence: {
      signature: page('GitLab’s merge requests 230944 and 231325', 'November 2026'),
      secret: page('GitLab’s merge requests 230944 and 231325', 'November 2026'),
    },
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
    delivery: known(
      { header: 'Idempotency-Key' },
      page(
        'GitLab’s merge request 160952 (Idempotency-Key, since 17.4) and the source of its WebHookService',
        'November 2026',
      ),
      'GitLab has sent it since version 17.4. `X-Gitlab-Event-UUID` is not one: it is new when a request is resent, and shared by events that cause each other.',
    ),
    retries: {
      when: 'only when somebody chooses “Resend Request”',
      signed: 'unsaid',
      from: page('docs.gitlab.com, “Webhooks”', 'November 2026'),
    },
    answer: {
      what: 'a 2xx or 3xx',
      from: code('gitlabhq/gitlabhq 017a6c1, app/services/web_hook_service.rb'),
    },
    evidence: {
      signature: code('gitlabhq/gitlabhq 017a6c1, app/services/web_hook_service.rb'),
      event: code('gitlabhq/gitlabhq 017a6c1, app/services/web_hook_service.rb'),
      secret: code('gitlabhq/gitlabhq 017a6c1, app/services/web_hook_service.rb'),
      rotation: silent('docs.gitlab.com, “Webhooks”'),
    },
    steps: [
      'Open the project or group, Settings → Webhooks → Add new webhook.',
      'URL: the URL of the table. Secret token: the text of the secret. Choose the triggers and save.',
    ],
    eventHeaders: ({ id }) => ({
      'X-Gitlab-Event': 'Push Hook',
      'X-Gitlab-Event-UUID': uuid(id),
      'Idempotency-Key': uuid(id),
    }),
    example: ({ id }) => ({ object_kind: 'push', after: id, project: { id: numeric(id), name: 'café' } }),
  }),
];
