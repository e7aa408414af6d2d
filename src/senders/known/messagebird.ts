/** MessageBird (Bird). */
import { createHash } from 'node:crypto';
import { ran } from '../evidence.ts';
import { digestToken } from '../timed-headers.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const messagebird: Sender = digestToken({
  id: 'messagebird',
  aliases: ['bird'],
  name: 'MessageBird (Bird)',
  claim: 'payload_hash',
  headers: ['MessageBird-Signature-JWT'],
  claims: ({ nowMs, url, id }) => ({
    iss: 'MessageBird',
    jti: uuid(id),
    nbf: Math.floor(nowMs / 1000),
    exp: Math.floor(nowMs / 1000) + 60,
    url_hash: createHash('sha256').update(url).digest('hex'),
  }),
  secret: { what: 'the signing key', where: 'Developers → Settings' },
  evidence: { signature: ran('messagebird') },
  notes: ['The token’s `url_hash` binds it to one URL; it is not compared.'],
  steps: ['Enter the URL of the table where the product asks for a webhook.'],
  example: ({ id, nowMs }) => ({
    id,
    recipient: '31612345678',
    status: 'delivered',
    statusDatetime: isoTime(nowMs),
  }),
});
