/** Intercom. */
import { known, page, ran, report, silent } from '../evidence.ts';
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
  delivery: known(
    { fields: [['id']], stays: [['topic'], ['data']] },
    report(
      'api-evangelist/intercom, its description of the events, August 2026: a notification has one id and counts its attempts',
    ),
  ),
  evidence: {
    signature: ran('@trigger.dev/core'),
    secret: ran('@trigger.dev/core'),
    handshake: report('zulip/zulip, zerver/webhooks/intercom/view.py'),
    event: report('api-evangelist/intercom, its description of the events, August 2026'),
    rotation: silent('developers.intercom.com/docs/webhooks'),
  },
  retries: {
    when: 'more and more rarely, and after a 429 from a minute on',
    signed: 'unsaid',
    from: report('api-evangelist/intercom, its description of the events, August 2026'),
  },
  answer: {
    what: 'a 2xx, best within half a second',
    from: page('developers.intercom.com/docs/webhooks/webhook-notifications', 'November 2026'),
  },
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
