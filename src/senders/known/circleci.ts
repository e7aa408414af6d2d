/** CircleCI. */
import { signatureList } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const circleci: Sender = signatureList({
  id: 'circleci',
  name: 'CircleCI',
  headers: ['circleci-signature'],
  secret: { what: 'the secret token', where: 'you choose it in the webhook’s form' },
  deliveryId: { fields: [['id']] },
  steps: ['Open Project Settings → Webhooks → Add Webhook: the URL of the table and the secret token.'],
  eventHeaders: () => ({ 'circleci-event-type': 'workflow-completed' }),
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    type: 'workflow-completed',
    happened_at: isoTime(nowMs),
    workflow: { name: 'build', status: 'success' },
  }),
});
