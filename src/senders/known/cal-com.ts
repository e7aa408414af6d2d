/** Cal.com. */
import { ran } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const calCom: Sender = hmacBody({
  id: 'cal_com',
  aliases: ['calcom'],
  name: 'Cal.com',
  headers: ['X-Cal-Signature-256'],
  secret: { what: 'the text you type as the secret', where: 'you choose it' },
  evidence: { signature: ran('@trigger.dev/core') },
  steps: [
    'Open Settings → Developer → Webhooks → New: the URL of the table as subscriber URL, and the secret.',
  ],
  example: ({ id, nowMs }) => ({
    triggerEvent: 'BOOKING_CREATED',
    createdAt: isoTime(nowMs),
    payload: { uid: id, title: '30 min meeting', attendees: [{ name: 'Zoë', email: 'zoe@example.com' }] },
  }),
});
