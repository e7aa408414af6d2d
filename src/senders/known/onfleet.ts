/** Onfleet. */
import { hmacBody } from '../hmac-body.ts';
import { type Sender, textSecret } from '../sender.ts';

export const onfleet: Sender = hmacBody({
  id: 'onfleet',
  name: 'Onfleet',
  algorithm: 'sha512',
  key: 'hex',
  headers: ['X-Onfleet-Signature'],
  secret: { what: 'the webhook secret, hexadecimal digits', where: 'Settings → API & Webhooks' },
  steps: [
    'Open Settings → API & Webhooks → Add webhook with the URL of the table and a trigger; or `POST /webhooks`.',
  ],
  source: 'Onfleet’s pages “Webhook Authentication” and “Validation”',
  makeSecret: textSecret('', 32),
  example: ({ id, nowMs }) => ({
    taskId: id.slice(0, 24),
    actionContext: { type: 'ORGANIZATION', id: id.slice(8, 32) },
    triggerId: 3,
    triggerName: 'taskCompleted',
    time: nowMs,
  }),
});
