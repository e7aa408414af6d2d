/** LINE. */
import { code, known, ran } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const line: Sender = hmacBody({
  id: 'line',
  name: 'LINE',
  encoding: 'base64',
  headers: ['x-line-signature'],
  secret: { what: 'the channel secret', where: 'LINE Developers Console → the channel → Basic settings' },
  delivery: known({ ofEach: 'webhookEventId' }, code('line/line-openapi, webhook.yml')),
  events: { what: 'event', at: ['events'] },
  evidence: {
    signature: [ran('@line/bot-sdk'), ran('line-bot-sdk')],
    event: code('line/line-openapi, webhook.yml'),
  },
  steps: [
    'Open the channel’s Messaging API settings in the LINE Developers Console.',
    'Webhook URL: the URL of the table. Verify, and switch “Use webhook” on.',
  ],
  example: ({ id, nowMs }) => ({
    destination: 'U8e742f61d673b39c7fff3cecb7536ef0',
    events: [
      {
        type: 'message',
        webhookEventId: id,
        timestamp: nowMs,
        message: { type: 'text', text: 'こんにちは' },
      },
    ],
  }),
});
