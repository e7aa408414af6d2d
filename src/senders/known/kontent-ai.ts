/** Kontent.ai. */
import { ran } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const kontentAi: Sender = hmacBody({
  id: 'kontent_ai',
  aliases: ['kentico_kontent', 'kontent'],
  name: 'Kontent.ai',
  encoding: 'base64',
  headers: ['X-Kontent-ai-Signature'],
  secret: { what: 'the webhook’s secret', where: 'Environment settings → Webhooks' },
  evidence: { signature: ran('@kontent-ai/webhook-helper') },
  steps: ['Open Environment settings → Webhooks → Create with the URL of the table.'],
  example: ({ id, nowMs }) => ({
    notifications: [
      {
        data: { system: { id: uuid(id), name: 'Café', last_modified: isoTime(nowMs) } },
        message: { object_type: 'content_item', action: 'published' },
      },
    ],
  }),
});
