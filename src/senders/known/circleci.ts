/** CircleCI. */
import { known, page } from '../evidence.ts';
import { signatureList } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const circleci: Sender = signatureList({
  id: 'circleci',
  name: 'CircleCI',
  headers: ['circleci-signature'],
  secret: { what: 'the secret token', where: 'you choose it in the webhook’s form' },
  delivery: known({ fields: [['id']] }, page('circleci.com/docs, “Outbound webhooks”', 'August 2026')),
  retries: {
    when: 'after an answer other than 2xx, and after 10 seconds without one',
    signed: 'unsaid',
    from: page('circleci.com/docs, “Outbound webhooks”', 'August 2026'),
  },
  answer: {
    what: 'a 2xx within 10 seconds',
    from: page('circleci.com/docs, “Outbound webhooks”', 'August 2026'),
  },
  evidence: { signature: page('circleci.com/docs, “Outbound webhooks”', 'August 2026') },
  steps: ['Open Project Settings → Webhooks → Add Webhook: the URL of the table and the secret token.'],
  eventHeaders: () => ({ 'circleci-event-type': 'workflow-completed' }),
  example: ({ id, nowMs }) => ({
    id: uuid(id),
    type: 'workflow-completed',
    happened_at: isoTime(nowMs),
    workflow: { name: 'build', status: 'success' },
  }),
});
