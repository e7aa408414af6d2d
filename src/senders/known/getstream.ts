/** GetStream (chat and video). */
import { ran, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const getstream: Sender = hmacBody({
  id: 'getstream',
  aliases: ['stream_chat', 'get_stream'],
  name: 'GetStream (chat and video)',
  headers: ['X-Signature'],
  secret: { what: 'the app’s API secret', where: 'Dashboard → the app' },
  delivery: unverified({ header: 'X-Webhook-Id' }),
  evidence: { signature: ran('stream-chat') },
  notes: [
    'With compression on, the signature is that of the body before it was compressed, which is what `payload` is.',
  ],
  steps: ['In the dashboard open the app → Webhooks and enter the URL of the table.'],
  eventHeaders: ({ id }) => ({ 'X-Webhook-Id': uuid(id), 'X-Api-Key': id.slice(0, 12) }),
  example: ({ id, nowMs }) => ({
    type: 'message.new',
    cid: 'messaging:general',
    created_at: isoTime(nowMs),
    message: { id: uuid(id), text: 'Grüße ☕' },
  }),
});
