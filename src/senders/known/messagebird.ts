/** MessageBird (Bird). */
import { report } from '../evidence.ts';
import { digestToken } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const messagebird: Sender = digestToken({
  id: 'messagebird',
  aliases: ['bird'],
  name: 'MessageBird (Bird)',
  claim: 'payload_hash',
  headers: ['MessageBird-Signature-JWT'],
  claims: (nowMs) => ({
    iss: 'MessageBird',
    nbf: Math.floor(nowMs / 1000),
    exp: Math.floor(nowMs / 1000) + 60,
  }),
  secret: { what: 'the signing key', where: 'Developers → Settings' },
  evidence: { signature: report('the catalogue of webhook sources of trigger.dev, July 2026') },
  steps: ['Enter the URL of the table where the product asks for a webhook.'],
  example: ({ id, nowMs }) => ({
    id,
    recipient: '31612345678',
    status: 'delivered',
    statusDatetime: isoTime(nowMs),
  }),
});
