/** Trello. */
import { code, unverified } from '../evidence.ts';
import { utf8 } from '../expressions.ts';
import type { Sender } from '../sender.ts';
import { urlHmac } from '../signed-url.ts';
import { isoTime } from '../signing.ts';

export const trello: Sender = urlHmac({
  id: 'trello',
  name: 'Trello',
  algorithm: 'sha1',
  bytes: `payload || ${utf8('url')}`,
  parts: ({ url, body }) => [body, url],
  headers: ['X-Trello-Webhook'],
  secret: { what: 'the app’s secret (OAuth secret)', where: 'the Power-Up’s admin page → API key' },
  delivery: unverified({ fields: [['action', 'id']] }),
  evidence: { handshake: code('n8n-io/n8n, nodes/Trello/TrelloTrigger.node.ts') },
  steps: ['Create webhooks through the API: `POST /1/webhooks` with `callbackURL`, the URL of the table.'],
  example: ({ id, nowMs }) => ({
    action: {
      id: id.slice(0, 24),
      type: 'updateCard',
      date: isoTime(nowMs),
      data: { card: { name: 'Café' } },
    },
    model: { id: id.slice(8, 32), name: 'Shop' },
  }),
});
