/** GitHub. */
import { known, page, ran, report, silent, vector } from '../evidence.ts';
import { hmacBody, repository } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const github: readonly Sender[] = [
  hmacBody({
    id: 'github',
    aliases: ['github_enterprise'],
    name: 'GitHub',
    prefix: 'sha256=',
    headers: ['X-Hub-Signature-256'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    delivery: known(
      { header: 'X-GitHub-Delivery' },
      page('docs.github.com, “Best practices for using webhooks”', 'November 2026'),
      'Several webhooks of one event, such as of a repository and of its organisation, share the id: give each its own table, or they are stored once.',
    ),
    retries: {
      when: null,
      signed: 'unsaid',
      from: page('docs.github.com, “Best practices for using webhooks”', 'November 2026'),
    },
    answer: {
      what: 'a 2xx within 10 seconds',
      from: page('docs.github.com, “Best practices for using webhooks”', 'November 2026'),
    },
    evidence: {
      signature: [
        ran('@octokit/webhooks-methods'),
        vector('docs.github.com, “Validating webhook deliveries”'),
      ],
      event: page('docs.github.com, “Webhook events and payloads”', 'November 2026'),
      rotation: silent('docs.github.com, “Best practices for using webhooks”'),
    },
    steps: [
      'Open the repository or organisation, Settings → Webhooks → Add webhook.',
      'Payload URL: the URL of the table. Content type: `application/json`.',
      'Secret: the text of the secret. Choose the events and save.',
    ],
    notes: [
      "What never arrived can be had again from GitHub's log of deliveries: [`reconcile`](../reconcile.md).",
      'GitHub sends a `ping` event first; it is stored like any other and needs no answer.',
      "With the content type `application/x-www-form-urlencoded` the JSON is in the field `payload` of a form: the table then needs `format = 'form'`.",
    ],
    eventHeaders: ({ id }) => ({
      'X-GitHub-Event': 'issues',
      'X-GitHub-Delivery': uuid(id),
      'User-Agent': 'GitHub-Hookshot/044aadd',
    }),
    example: ({ id }) => ({
      action: 'opened',
      issue: { id: numeric(id), number: 42, title: 'The café page is slow ☕', state: 'open' },
      repository,
      sender: { login: 'octocat', id: 583231 },
    }),
  }),
  hmacBody({
    id: 'github_sha1',
    name: 'GitHub (SHA-1, older GitHub Enterprise)',
    prefix: 'sha1=',
    algorithm: 'sha1',
    headers: ['X-Hub-Signature'],
    secret: { what: 'the text you type as the secret', where: 'you choose it' },
    delivery: known(
      { header: 'X-GitHub-Delivery' },
      page('docs.github.com, “Best practices for using webhooks”', 'November 2026'),
      'Several webhooks of one event, such as of a repository and of its organisation, share the id: give each its own table, or they are stored once.',
    ),
    retries: {
      when: null,
      signed: 'unsaid',
      from: page('docs.github.com, “Best practices for using webhooks”', 'November 2026'),
    },
    answer: {
      what: 'a 2xx within 10 seconds',
      from: page('docs.github.com, “Best practices for using webhooks”', 'November 2026'),
    },
    evidence: { signature: report('test/vectors.json, from RisingWave’s documentation') },
    steps: ['As for GitHub. Prefer `github`: every current GitHub sends both signatures.'],
    eventHeaders: ({ id }) => ({ 'X-GitHub-Event': 'push', 'X-GitHub-Delivery': uuid(id) }),
    example: ({ id }) => ({ ref: 'refs/heads/main', after: id, repository }),
  }),
];
