/** Intercom. */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric, uuid } from '../signing.ts';

export const intercom: Sender = hmacBody({
  id: 'intercom',
  name: 'Intercom',
  prefix: 'sha1=',
  algorithm: 'sha1',
  headers: ['X-Hub-Signature'],
  secret: { what: 'the app’s client secret', where: 'Developer Hub → the app → Basic information' },
  delivery: unverified({ fields: [['id']] }),
  evidence: { signature: ran('@trigger.dev/core') },
  steps: [
    'In the Developer Hub open the app → Webhooks.',
    'Endpoint URL: the URL of the table. Choose the topics and save.',
  ],
  example: ({ id, nowMs }) => ({
    type: 'notification_event',
    id: `notif_${uuid(id)}`,
    topic: 'conversation.user.created',
    created_at: Math.floor(nowMs / 1000),
    data: { type: 'notification_event_data', item: { type: 'conversation', id: String(numeric(id)) } },
  }),
});
