/** Lark and Feishu. */
import { code, unverified } from '../evidence.ts';
import { body, field } from '../expressions.ts';
import type { Sender } from '../sender.ts';
import { tokenInBody } from '../token-forms.ts';

export const lark: Sender = tokenInBody({
  id: 'lark',
  aliases: ['feishu'],
  name: 'Lark and Feishu',
  secret: { what: 'the verification token', where: 'the app → Events & callbacks → Encryption strategy' },
  value: `coalesce(${field('header,token')}, ${body}->>'token')`,
  put: (document, key) => ({
    ...document,
    header: { ...(document['header'] as object | undefined), token: key },
  }),
  delivery: unverified({ fields: [['header', 'event_id']] }),
  evidence: {
    signature: code('larksuite/oapi-sdk-nodejs'),
    handshake: code('larksuite/oapi-sdk-nodejs, packages/event/src/core/handlers/handlers.ts'),
  },
  steps: [
    'Open the app → Events & callbacks, and leave the encrypt key empty: encrypted requests cannot be checked.',
    'Request URL: the URL of the table. Save, and subscribe to the events.',
  ],
  example: ({ id, nowMs }) => ({
    schema: '2.0',
    header: {
      event_id: id,
      event_type: 'im.message.receive_v1',
      create_time: String(nowMs),
      app_id: 'cli_a1b2c3d4e5f6',
    },
    event: { message: { message_id: `om_${id}`, content: '{"text":"你好"}' } },
  }),
});
