/** Buildkite. */
import { page } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';
import { timestampedList } from '../timestamped.ts';

export const buildkite: Sender = timestampedList({
  id: 'buildkite',
  name: 'Buildkite (signature)',
  time: 'timestamp',
  version: 'signature',
  toleranceS: 300,
  headers: ['X-Buildkite-Signature'],
  secret: { what: 'the webhook’s token', where: 'in the notification service’s settings' },
  retries: {
    when: 'at times that its documentation does not name',
    signed: 'anew',
    from: page('buildkite.com/docs/apis/webhooks', 'August 2026'),
  },
  evidence: {
    signature: page('buildkite.com/docs/apis/webhooks', 'August 2026'),
    secret: page('buildkite.com/docs/apis/webhooks', 'August 2026'),
  },
  steps: [
    'Open the organisation’s Settings → Notification Services → Add → Webhook.',
    'Webhook URL: the URL of the table. Token: send an HMAC signature. Choose the events.',
  ],
  eventHeaders: () => ({ 'X-Buildkite-Event': 'build.finished' }),
  example: ({ id }) => ({
    event: 'build.finished',
    build: { id: uuid(id), number: numeric(id), state: 'passed', branch: 'main' },
    pipeline: { slug: 'shop' },
  }),
});
