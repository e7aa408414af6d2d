/** Bitbucket Cloud and Data Center. */
import { page, report, silent, undecided, unfound, vector } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { uuid } from '../signing.ts';

export const bitbucket: Sender = hmacBody({
  id: 'bitbucket',
  aliases: ['bitbucket_cloud', 'bitbucket_server'],
  name: 'Bitbucket Cloud and Data Center',
  prefix: 'sha256=',
  headers: ['X-Hub-Signature'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  delivery: undecided(
    { header: 'X-Request-UUID' },
    'X-Request-UUID identifies an attempt, and X-Attempt-Number counts them: nobody says whether a retry has the same id',
    report('api-evangelist/bitbucket, its description of the events, August 2026'),
  ),
  evidence: {
    signature: [
      report('a public receiver’s table of signatures, read in November 2026'),
      page('support.atlassian.com, “Manage webhooks”', 'November 2025'),
      vector('support.atlassian.com, “Manage webhooks”'),
    ],
    secret: vector('support.atlassian.com, “Manage webhooks”'),
    retries: unfound(),
    answer: unfound(),
    event: page('support.atlassian.com, “Event payloads”', 'November 2026'),
    rotation: silent('support.atlassian.com, “Manage webhooks”'),
  },
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
