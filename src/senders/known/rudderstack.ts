/** RudderStack. */
import { unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const rudderstack: Sender = tokenHeader('plain', {
  id: 'rudderstack',
  name: 'RudderStack (webhook destination)',
  headers: ['Authorization'],
  secret: chosen(),
  delivery: unverified({ fields: [['messageId']] }),
  steps: [
    'Add a Webhook destination with the URL of the table and, under Headers, `Authorization` with the text of the secret.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'track',
    event: 'Order Completed',
    messageId: uuid(id),
    originalTimestamp: isoTime(nowMs),
  }),
});
