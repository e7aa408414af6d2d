/** Onfleet. */
import { page } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { type Sender, textSecret } from '../sender.ts';

export const onfleet: Sender = hmacBody({
  id: 'onfleet',
  name: 'Onfleet',
  algorithm: 'sha512',
  key: 'hex',
  headers: ['X-Onfleet-Signature'],
  secret: { what: 'the webhook secret, hexadecimal digits', where: 'Settings → API & Webhooks' },
  evidence: {
    signature: page('docs.onfleet.com, “Webhook Authentication”', 'November 2026'),
    handshake: page('docs.onfleet.com, “Validation”', 'November 2026'),
  },
  steps: [
    'Open Settings → API & Webhooks → Add webhook with the URL of the table and a trigger; or `POST /webhooks`.',
  ],
  makeSecret: textSecret('', 32),
  example: ({ id, nowMs }) => ({
    taskId: id.slice(0, 24),
    actionContext: { type: 'ORGANIZATION', id: id.slice(8, 32) },
    triggerId: 3,
    triggerName: 'taskCompleted',
    time: nowMs,
  }),
});
