/** Wrike. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const wrike: Sender = hmacBody({
  id: 'wrike',
  name: 'Wrike',
  headers: ['X-Hook-Signature'],
  secret: { what: '`secret` of the call that creates the webhook', where: 'you choose it' },
  evidence: { signature: report('several public receivers of Wrike’s webhooks') },
  steps: [
    'Create the table first: Wrike calls it while the webhook is created.',
    'Create webhooks through the API: `POST /webhooks`, or `/folders/{folderId}/webhooks`, with `hookUrl`, the URL of the table, and `secret`, the text of the secret.',
  ],
  notes: [
    'One request is a list of events, which is stored as one row.',
    'Without `secret` Wrike signs nothing, and every request is refused.',
  ],
  example: ({ id, nowMs }) => [
    {
      eventType: 'TaskStatusChanged',
      taskId: `IEAAA${id.slice(0, 11).toUpperCase()}`,
      webhookId: `IEAAA${id.slice(11, 19).toUpperCase()}`,
      eventAuthorId: 'KUAFBOTB',
      lastUpdatedDate: isoTime(nowMs),
    },
  ],
});
