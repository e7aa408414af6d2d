/** Jira Cloud. */
import { known, page, ran, report, unfound, vector } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const jira: Sender = hmacBody({
  id: 'jira',
  aliases: ['jira_cloud'],
  name: 'Jira Cloud (admin webhooks)',
  prefix: 'sha256=',
  headers: ['X-Hub-Signature'],
  secret: { what: 'the text you type or have it generate', where: 'in the webhook’s form' },
  delivery: known(
    { header: 'X-Atlassian-Webhook-Identifier' },
    report('the package jira.js, which describes the headers of Jira'),
  ),
  answer: {
    what: 'a 2xx; a 4xx other than 408, 409, 425 and 429 is final',
    from: page('community.developer.atlassian.com, “New Jira Cloud Webhook Retry Policy”', 'November 2026'),
  },
  evidence: {
    signature: [ran('@trigger.dev/core'), vector('developer.atlassian.com/cloud/jira/platform/webhooks')],
    secret: vector('developer.atlassian.com/cloud/jira/platform/webhooks'),
    rotation: unfound(),
    event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
  },
  retries: {
    when: 'after a 408, 409, 425, 429 or 5xx, and where no answer comes, for about half an hour',
    signed: 'unsaid',
    from: page('community.developer.atlassian.com, “New Jira Cloud Webhook Retry Policy”', 'November 2026'),
  },
  steps: [
    'Open the administration’s System settings → WebHooks → Create a WebHook.',
    'URL: the URL of the table. Secret: the text of the secret. Choose the events and save.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Atlassian-Webhook-Identifier': uuid(id) }),
  example: ({ id, nowMs }) => ({
    timestamp: nowMs,
    webhookEvent: 'jira:issue_updated',
    issue: { id: String(numeric(id)), key: 'SHOP-42', fields: { summary: 'The café page is slow' } },
  }),
});
