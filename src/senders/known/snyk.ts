/** Snyk. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const snyk: Sender = hmacBody({
  id: 'snyk',
  name: 'Snyk',
  prefix: 'sha256=',
  headers: ['X-Hub-Signature'],
  secret: { what: 'the webhook’s secret', where: 'you choose it' },
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: [
    'Create webhooks through the API: `POST /v1/org/{orgId}/webhooks` with `url`, the URL of the table, and `secret`.',
  ],
  eventHeaders: ({ id }) => ({ 'X-Snyk-Event': 'project_snapshot/v0', 'X-Snyk-Transport-ID': id }),
  example: ({ id, nowMs }) => ({
    project: { name: 'acme/shop', id: uuid(id), lastTestedDate: isoTime(nowMs) },
    newIssues: [],
    removedIssues: [],
  }),
});
