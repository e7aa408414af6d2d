/** Vonage (signed webhooks). */
import { ran, unverified } from '../evidence.ts';
import { digestToken } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const vonage: Sender = digestToken({
  id: 'vonage',
  aliases: ['nexmo'],
  name: 'Vonage (signed webhooks)',
  claim: 'payload_hash',
  bearer: true,
  headers: ['Authorization'],
  toleranceS: 300,
  claims: () => ({ iss: 'Vonage', api_key: 'a1b2c3d4' }),
  secret: { what: 'the signature secret', where: 'Dashboard → API settings' },
  delivery: unverified({ fields: [['message_uuid']] }),
  evidence: { signature: ran('@vonage/jwt') },
  steps: [
    'In the dashboard open the application → Capabilities → Messages or Voice, with the URL of the table, method POST.',
  ],
  example: ({ id, nowMs }) => ({
    message_uuid: uuid(id),
    channel: 'sms',
    from: '14155550100',
    to: '14155550199',
    timestamp: isoTime(nowMs),
    text: 'Grüße',
  }),
});
